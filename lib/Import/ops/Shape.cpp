// Operators that regroup, move or cut dimensions.
#include "lib/Import/Importer.h"
#include "lib/Import/ops/Families.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using llvm::Twine;

namespace tessera {
namespace {

void reshape(NodeImport &n) {
  Value x = n.in(0);
  std::vector<int64_t> wanted = n.ints(1);
  bool zeroIsZero = n.intAttr("allowzero", 0);
  int64_t known = 1, unknown = -1;
  Shape shape;
  for (auto [d, size] : llvm::enumerate(wanted)) {
    if (size == 0 && !zeroIsZero) {
      if (static_cast<int64_t>(d) >= rankOf(x))
        n.fail("the new shape copies dimension " + Twine(d) + ", which the operand lacks");
      size = shapeOf(x)[d];
    }
    if (size < -1 || (size == -1 && unknown != -1))
      n.fail("the new shape has more than one -1, or a negative size");
    if (size == -1)
      unknown = d;
    else if (llvm::MulOverflow(known, size, known))
      n.fail("the new shape is impossible");
    shape.push_back(size);
  }
  int64_t elements = typeOf(x).getNumElements();
  if (unknown != -1) {
    if (known == 0 || elements % known)
      n.fail(Twine(elements) + " elements do not fill the new shape");
    shape[unknown] = elements / known;
  }
  n.out(n.e.reshape(x, shape));
}

void flatten(NodeImport &n) {
  Value x = n.in(0);
  int64_t axis = n.intAttr("axis", 1), rank = rankOf(x);
  axis = axis == rank ? rank : n.axis(axis, rank);
  n.out(n.e.reshape(x, {product(shapeOf(x).take_front(axis)), product(shapeOf(x).drop_front(axis))}));
}

void transpose(NodeImport &n) {
  Value x = n.in(0);
  std::vector<int64_t> reversed;
  for (int64_t d = rankOf(x) - 1; d >= 0; --d)
    reversed.push_back(d);
  std::vector<int64_t> perm = n.intsAttr("perm", reversed), sorted = perm;
  llvm::sort(sorted);
  if (!llvm::equal(sorted, llvm::seq<int64_t>(0, rankOf(x))))
    n.fail("perm is not a permutation of the operand's dimensions");
  n.out(n.e.transpose(x, perm));
}

void squeeze(NodeImport &n) {
  Value x = n.in(0);
  std::vector<int64_t> axes;
  if (n.has(1))
    axes = n.axes(n.ints(1), rankOf(x));
  else
    for (int64_t d = 0; d < rankOf(x); ++d)
      if (shapeOf(x)[d] == 1)
        axes.push_back(d);
  Shape shape;
  for (int64_t d = 0; d < rankOf(x); ++d)
    if (!llvm::is_contained(axes, d))
      shape.push_back(shapeOf(x)[d]);
    else if (shapeOf(x)[d] != 1)
      n.fail("cannot squeeze dimension " + Twine(d) + " of size " + Twine(shapeOf(x)[d]));
  n.out(n.e.reshape(x, shape));
}

void unsqueeze(NodeImport &n) {
  Value x = n.in(0);
  std::vector<int64_t> given = n.ints(1);
  std::vector<int64_t> axes = n.axes(given, rankOf(x) + given.size());
  Shape shape(shapeOf(x));
  for (int64_t axis : axes)
    shape.insert(shape.begin() + axis, 1);
  n.out(n.e.reshape(x, shape));
}

/// numpy's rule for two shapes; sizes that do not fit are left for broadcastTo to report.
Shape broadcastShape(llvm::ArrayRef<int64_t> x, llvm::ArrayRef<int64_t> y) {
  Shape result(std::max(x.size(), y.size()), 1);
  for (size_t k = 0; k < result.size(); ++k) {
    int64_t a = k < x.size() ? x[x.size() - 1 - k] : 1, b = k < y.size() ? y[y.size() - 1 - k] : 1;
    result[result.size() - 1 - k] = b == 1 ? a : b;
  }
  return result;
}

void expand(NodeImport &n) {
  std::vector<int64_t> wanted = n.ints(1);
  int64_t size = 1;
  for (int64_t dim : wanted)
    if (dim < 0 || llvm::MulOverflow(size, dim, size))
      n.fail("the shape is impossible");
  n.out(n.e.broadcastTo(n.in(0), broadcastShape(shapeOf(n.in(0)), wanted)));
}

void tile(NodeImport &n) {
  Value x = n.in(0);
  std::vector<int64_t> repeats = n.ints(1);
  if (static_cast<int64_t>(repeats.size()) != rankOf(x))
    n.fail("one repeat for each dimension is expected");
  Shape split, tiled, merged;
  for (auto [size, repeat] : llvm::zip(shapeOf(x), repeats)) {
    int64_t total;
    if (repeat < 0 || llvm::MulOverflow(size, repeat, total))
      n.fail("the repeats are impossible");
    split.append({1, size});
    tiled.append({repeat, size});
    merged.push_back(total);
  }
  n.out(n.e.reshape(n.e.broadcastTo(n.e.reshape(x, split), tiled), merged));
}

void concat(NodeImport &n) {
  llvm::SmallVector<Value> operands;
  for (size_t i = 0; i < std::max<size_t>(n.node.inputs.size(), 1); ++i)
    operands.push_back(n.in(i));
  int64_t axis = n.axis(n.intAttr("axis", 0), rankOf(operands[0]));
  llvm::erase_if(operands,
                 [&](Value v) { return operands.size() > 1 && rankOf(v) > axis && shapeOf(v)[axis] == 0; });
  if (operands.empty())
    return n.out(n.in(0));
  n.out(n.e.concat(operands, axis));
}

/// A file may ask for more parts than there is memory.
void checkParts(NodeImport &n, int64_t count) {
  constexpr int64_t maxParts = 1 << 16;
  if (count > maxParts)
    n.fail("a split into " + Twine(count) + " parts is not supported, up to " + Twine(maxParts) + " are");
}

/// Sizes of the parts of Split and SplitToSequence along a dimension of `size`.
std::vector<int64_t> partSizes(NodeImport &n, int64_t size, std::optional<int64_t> parts) {
  std::vector<int64_t> sizes;
  if (n.has(1)) {
    sizes = n.ints(1);
    bool scalar = rankOf(n.in(1)) == 0;
    if (scalar) {
      int64_t chunk = sizes[0];
      if (chunk < 1)
        n.fail("the parts have no size");
      checkParts(n, llvm::divideCeil(size, chunk));
      sizes.clear();
      for (int64_t start = 0; start < size; start += chunk)
        sizes.push_back(std::min(chunk, size - start));
    }
  } else {
    int64_t count = parts.value_or(size);
    if (count < 1)
      n.fail("the number of parts is not positive");
    checkParts(n, count);
    int64_t chunk = llvm::divideCeil(size, count);
    for (int64_t start = 0; static_cast<int64_t>(sizes.size()) < count; start += chunk)
      sizes.push_back(std::clamp<int64_t>(size - start, 0, chunk));
  }
  int64_t sum = 0;
  for (int64_t part : sizes)
    if (part < 0 || llvm::AddOverflow(sum, part, sum))
      n.fail("a part has an impossible size");
  if (sum != size)
    n.fail("the parts add up to " + Twine(sum) + ", the dimension has " + Twine(size));
  return sizes;
}

void split(NodeImport &n) {
  Value x = n.in(0);
  int64_t axis = n.axis(n.intAttr("axis", 0), rankOf(x)), start = 0;
  std::vector<int64_t> sizes =
      partSizes(n, shapeOf(x)[axis], n.intAttr("num_outputs", n.node.outputs.size()));
  for (auto [i, size] : llvm::enumerate(sizes)) {
    n.out(n.e.slice(x, axis, start, size), i);
    start += size;
  }
}

void splitToSequence(NodeImport &n) {
  Value x = n.in(0);
  int64_t axis = n.axis(n.intAttr("axis", 0), rankOf(x)), start = 0;
  bool keep = n.intAttr("keepdims", 1) || n.has(1);
  std::vector<Value> parts;
  for (int64_t size : partSizes(n, shapeOf(x)[axis], std::nullopt)) {
    Value part = n.e.slice(x, axis, start, size);
    start += size;
    if (!keep) {
      Shape shape(shapeOf(part));
      shape.erase(shape.begin() + axis);
      part = n.e.reshape(part, shape);
    }
    parts.push_back(part);
  }
  n.outSequence(std::move(parts));
}

void sequenceAt(NodeImport &n) {
  const std::vector<Value> &parts = n.sequence(0);
  n.out(parts[n.axis(n.integer(1), parts.size())]);
}

void sequenceConstruct(NodeImport &n) {
  std::vector<Value> parts;
  for (size_t i = 0; i < n.node.inputs.size(); ++i)
    parts.push_back(n.in(i));
  n.outSequence(std::move(parts));
}

void concatFromSequence(NodeImport &n) {
  std::vector<Value> parts = n.sequence(0);
  if (parts.empty())
    n.fail("the sequence is empty");
  bool isNew = n.intAttr("new_axis", 0);
  int64_t axis = n.axis(n.intAttr("axis", 0), rankOf(parts[0]) + isNew);
  if (isNew)
    for (Value &part : parts) {
      Shape shape(shapeOf(part));
      shape.insert(shape.begin() + axis, 1);
      part = n.e.reshape(part, shape);
    }
  n.out(n.e.concat(parts, axis));
}

void slice(NodeImport &n) {
  Value x = n.in(0);
  std::vector<int64_t> starts = n.ints(1), ends = n.ints(2), axes, steps(starts.size(), 1);
  if (n.has(3))
    axes = n.ints(3);
  else
    axes.assign(llvm::seq<int64_t>(0, starts.size()).begin(), llvm::seq<int64_t>(0, starts.size()).end());
  if (n.has(4))
    steps = n.ints(4);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    n.fail("starts, ends, axes and steps differ in length");
  Shape first(rankOf(x), 0), sizes(shapeOf(x)), stride(rankOf(x), 1);
  for (size_t k = 0; k < starts.size(); ++k) {
    int64_t axis = n.axis(axes[k], rankOf(x)), size = shapeOf(x)[axis];
    if (steps[k] == 0 || steps[k] == INT64_MIN)
      n.fail("the step " + Twine(steps[k]) + " of a Slice is impossible");
    if (steps[k] < 0) {
      auto clamp = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + size : v, -1, size - 1); };
      std::vector<int64_t> indices;
      // An end before the first element can only be told as one below -size.
      int64_t end = ends[k] < -size ? -1 : clamp(ends[k]);
      int64_t step = std::max(steps[k], -size - 1);
      n.checkListed((clamp(starts[k]) - end) / -step);
      for (int64_t i = clamp(starts[k]); i > end; i += step)
        indices.push_back(i);
      x = n.e.take(x, axis, indices);
      sizes[axis] = indices.size();
      continue;
    }
    auto clamp = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + size : v, 0, size); };
    int64_t begin = clamp(starts[k]), end = std::max(clamp(ends[k]), begin);
    first[axis] = begin;
    sizes[axis] = llvm::divideCeil(end - begin, steps[k]);
    stride[axis] = steps[k];
  }
  n.out(n.e.slice(x, first, sizes, stride));
}

/// Where each element of dimension of `size` with `before` and `after` more around comes from; negative ones
/// cut.
std::vector<int64_t> padSources(NodeImport &n, llvm::StringRef mode, int64_t size, int64_t before,
                                int64_t after) {
  if (mode == "reflect" && std::max(before, after) >= size)
    n.fail("a reflecting Pad must be smaller than its dimension of size " + Twine(size));
  n.checkListed(size + before + after);
  std::vector<int64_t> sources;
  for (int64_t i = -before; i < size + after; ++i) {
    int64_t wrapped = ((i % size) + size) % size, mirrored = i < 0 ? -i : i >= size ? 2 * size - 2 - i : i;
    sources.push_back(mode == "wrap"   ? wrapped
                      : mode == "edge" ? std::clamp<int64_t>(i, 0, size - 1)
                                       : mirrored);
  }
  return sources;
}

void pad(NodeImport &n) {
  Value x = n.in(0);
  std::string mode = n.stringAttr("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    n.fail("the mode '" + mode + "' of a Pad is unknown");
  std::vector<int64_t> pads = n.ints(1), axes;
  if (n.has(3))
    axes = n.ints(3);
  else
    for (int64_t d = 0; d < rankOf(x); ++d)
      axes.push_back(d);
  if (pads.size() != 2 * axes.size())
    n.fail("two pads for each dimension are expected");
  if (mode != "constant") {
    for (size_t k = 0; k < axes.size(); ++k) {
      int64_t axis = n.axis(axes[k], rankOf(x)), before = pads[k], after = pads[k + axes.size()];
      if (std::max(before, after) > INT16_MAX || shapeOf(x)[axis] < 1)
        n.fail("the pads are impossible");
      if (before || after)
        x = n.e.take(x, axis, padSources(n, mode, shapeOf(x)[axis], before, after));
    }
    return n.out(x);
  }
  double value = 0;
  if (n.has(2)) {
    const HostTensor *known = n.known(2);
    if (!known || known->storedSize() != 1)
      n.fail("the value of a Pad must be a constant");
    value = known->number(0);
  }
  Shape low(rankOf(x), 0), high(rankOf(x), 0), interior(rankOf(x), 0), starts(rankOf(x), 0),
      sizes(shapeOf(x));
  for (size_t k = 0; k < axes.size(); ++k) {
    int64_t axis = n.axis(axes[k], rankOf(x));
    int64_t before = pads[k], after = pads[k + axes.size()];
    if (std::max(before, after) > INT32_MAX || std::min(before, after) < -shapeOf(x)[axis])
      n.fail("the pads " + Twine(before) + " and " + Twine(after) + " are impossible for dimension " +
             Twine(axis) + " of size " + Twine(shapeOf(x)[axis]));
    starts[axis] = std::max<int64_t>(-before, 0); // negative pads cut
    sizes[axis] -= starts[axis] + std::max<int64_t>(-after, 0);
    if (sizes[axis] < 0)
      n.fail("the pads cut more than there is");
    low[axis] = std::max<int64_t>(before, 0);
    high[axis] = std::max<int64_t>(after, 0);
  }
  x = n.e.slice(x, starts, sizes, Shape(rankOf(x), 1));
  if (llvm::all_of(low, [](int64_t p) { return p == 0; }) &&
      llvm::all_of(high, [](int64_t p) { return p == 0; }))
    return n.out(x);
  Builder &b = n.e.builder;
  n.out(n.e.emit<nn::PadOp>(x, {b.getNamedAttr("low", b.getDenseI64ArrayAttr(low)),
                                b.getNamedAttr("high", b.getDenseI64ArrayAttr(high)),
                                b.getNamedAttr("interior", b.getDenseI64ArrayAttr(interior)),
                                b.getNamedAttr("value", b.getF64FloatAttr(value))}));
}

} // namespace

void addShapeHandlers(HandlerRegistry &r) {
  r.add("Reshape", reshape);
  r.add("Flatten", flatten);
  r.add("Transpose", transpose);
  r.add("Squeeze", squeeze);
  r.add("Unsqueeze", unsqueeze);
  r.add("Expand", expand);
  r.add("Tile", tile);
  r.add("Concat", concat);
  r.add("Split", split);
  r.add("SplitToSequence", splitToSequence);
  r.add("SequenceAt", sequenceAt);
  r.add("SequenceConstruct", sequenceConstruct);
  r.add("ConcatFromSequence", concatFromSequence);
  r.add("Slice", slice);
  r.add("Pad", pad);
}

} // namespace tessera
