// Pools: the maximum is an operator; averages are convolutions of each channel by itself.
#include "lib/Import/ops/Families.h"
#include "lib/Import/ops/Mean.h"
#include "lib/Import/ops/Window.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using llvm::Twine;

namespace tessera {
namespace {

/// The window of a pool. With ceil_mode it has more padding at the end, so that the last window, which must
/// start before the given padding ends, is whole: `extra` tells how much.
Window poolWindow(NodeImport &n, std::vector<int64_t> &extra) {
  llvm::ArrayRef<int64_t> shape = shapeOf(n.in(0));
  Type type = elementOf(n.in(0));
  if (shape.size() < 3 || !(isa<FloatType>(type) || type.getIntOrFloatBitWidth() == 8))
    n.fail(n.node.opType +
           " needs an image [n, c, ..] of floating numbers or bytes, with spatial dimensions");
  llvm::ArrayRef<int64_t> image = shape.drop_front(2);
  Window w = windowOf(n, image, n.intsAttr("kernel_shape"));
  extra.assign(w.spatial(), 0);
  for (int64_t d = 0; d < w.spatial() && n.intAttr("ceil_mode", 0); ++d) {
    int64_t padded = image[d] + w.pads[d] + w.pads[d + w.spatial()], room = padded - w.extent(d);
    if (room < 0 || room % w.strides[d] == 0)
      continue;
    int64_t last = (room / w.strides[d] + 1) * w.strides[d];
    if (last >= image[d] + w.pads[d])
      continue;
    extra[d] = last - room;
    w.pads[d + w.spatial()] += extra[d];
  }
  return w;
}

/// For MaxPool's second output: the row-major number of the chosen element in the whole image.
Value elementNumbers(NodeImport &n, Value chosen, const Window &w) {
  Emitter &e = n.e;
  llvm::ArrayRef<int64_t> image = shapeOf(n.in(0)), pooled = shapeOf(chosen);
  Type i64 = e.builder.getI64Type();
  Value number = e.cast(chosen, i64), flat;
  auto times = [&](Value v, int64_t k) { return e.binary<nn::MulOp>(v, e.scalarLike(v, k)); };
  int64_t stride = 1;
  auto addPart = [&](Value part, int64_t size) {
    part = times(part, stride);
    flat = flat ? e.binary<nn::AddOp>(flat, part) : part;
    stride *= size;
  };
  auto along = [&](int64_t d) {
    Shape own(image.size(), 1);
    own[d] = pooled[d];
    return e.iota(i64, own, d);
  };
  for (int64_t d = w.spatial() - 1; d >= 0; --d) {
    Value rest = e.binary<nn::DivOp>(number, e.scalarLike(number, w.sizes[d]));
    Value k = e.binary<nn::SubOp>(number, times(rest, w.sizes[d]));
    Value first = e.binary<nn::SubOp>(times(along(d + 2), w.strides[d]), e.scalarLike(number, w.pads[d]));
    addPart(e.binary<nn::AddOp>(first, times(k, w.dilations[d])), image[d + 2]);
    number = rest;
  }
  addPart(along(1), image[1]);
  addPart(along(0), image[0]);
  return flat;
}

void maxPool(NodeImport &n) {
  Emitter &e = n.e;
  std::vector<int64_t> extra;
  Window w = poolWindow(n, extra);
  bool columnMajor = n.intAttr("storage_order", 0); // of the second output
  Builder &b = e.builder;
  // Integers, which are of 8 bits, as numbers that are as exact.
  Value x = n.in(0), image = isa<FloatType>(elementOf(x)) ? x : e.cast(x, b.getF32Type());
  auto pool =
      e.create<nn::MaxPoolOp>(image, {b.getNamedAttr("window", b.getDenseI64ArrayAttr(w.sizes)),
                                      b.getNamedAttr("strides", b.getDenseI64ArrayAttr(w.strides)),
                                      b.getNamedAttr("pads", b.getDenseI64ArrayAttr(w.pads)),
                                      b.getNamedAttr("dilations", b.getDenseI64ArrayAttr(w.dilations))});
  n.out(e.cast(pool.getY(), elementOf(x)));
  if (n.node.outputs.size() < 2 || n.node.outputs[1].empty())
    return;
  if (columnMajor)
    n.fail("MaxPool's indices in column-major order are not supported");
  n.out(elementNumbers(n, pool.getChosen(), w), 1);
}

/// How many elements the window counts at each of `results` positions along dimension d.
std::vector<int64_t> counts(const Window &w, int64_t d, int64_t size, int64_t extra, bool padding,
                            int64_t results) {
  int64_t end = padding ? size + w.pads[d + w.spatial()] - extra : size, begin = padding ? -w.pads[d] : 0;
  std::vector<int64_t> list(results);
  for (int64_t o = 0; o < results; ++o) {
    int64_t first = o * w.strides[d] - w.pads[d];
    auto before = [&](int64_t position) { // elements of the window
      return std::clamp<int64_t>(llvm::divideCeilSigned(position - first, w.dilations[d]), 0, w.sizes[d]);
    };
    list[o] = before(end) - before(begin);
  }
  return list;
}

/// How many elements each window counts: a list along each spatial dimension, which multiply.
Value countsOf(NodeImport &n, const Window &w, llvm::ArrayRef<int64_t> extra, Value sums) {
  llvm::ArrayRef<int64_t> image = shapeOf(n.in(0)), pooled = shapeOf(sums);
  bool padding = n.intAttr("count_include_pad", 0);
  Value product = n.e.scalarLike(sums, 1);
  for (int64_t d = 0; d < w.spatial(); ++d) {
    n.checkListed(pooled[d + 2]);
    std::vector<int64_t> counted = counts(w, d, image[d + 2], extra[d], padding, pooled[d + 2]);
    Shape own(pooled.size(), 1);
    own[d + 2] = pooled[d + 2];
    HostTensor list(elementOf(sums), own, own);
    for (auto [i, count] : llvm::enumerate(counted))
      list.set(i, static_cast<double>(count));
    product = n.e.binary<nn::MulOp>(product, n.e.constant(list.compressed()));
  }
  return product;
}

/// Sums, by a convolution with ones, divided by their counts: not times a reciprocal, so that the mean of
/// equal numbers is that number. In f32 of half types, whose largest number a sum may pass.
void averagePool(NodeImport &n) {
  Emitter &e = n.e;
  std::vector<int64_t> extra;
  Window w = poolWindow(n, extra);
  Value x = n.in(0);
  Shape image(shapeOf(x)), planes{image[0] * image[1], 1}, window{1, 1};
  llvm::append_range(planes, llvm::ArrayRef<int64_t>(image).drop_front(2));
  llvm::append_range(window, w.sizes);
  Builder &b = e.builder;
  Type type = elementOf(x), wide = type.isF64() ? type : Type(b.getF32Type());
  Value sums = e.emit<nn::ConvOp>({e.reshape(e.cast(x, wide), planes), e.splat(wide, 1, window)},
                                  {b.getNamedAttr("strides", b.getDenseI64ArrayAttr(w.strides)),
                                   b.getNamedAttr("pads", b.getDenseI64ArrayAttr(w.pads)),
                                   b.getNamedAttr("dilations", b.getDenseI64ArrayAttr(w.dilations)),
                                   b.getNamedAttr("groups", b.getI64IntegerAttr(1))});
  Shape pooled{image[0], image[1]};
  llvm::append_range(pooled, shapeOf(sums).drop_front(2));
  sums = e.reshape(sums, pooled);
  n.out(e.cast(e.binary<nn::DivOp>(sums, countsOf(n, w, extra, sums)), type));
}

template <bool average> void globalPool(NodeImport &n) {
  Emitter &e = n.e;
  Value x = n.in(0);
  auto dims = llvm::to_vector(llvm::seq<int64_t>(2, std::max<int64_t>(rankOf(x), 2)));
  Value pooled = e.reduce(x, dims, average ? "sum" : "max", true);
  if (average)
    pooled = meanOf(e, pooled, product(shapeOf(x).drop_front(2)));
  n.out(pooled);
}

} // namespace

void addPoolHandlers(HandlerRegistry &r) {
  r.add("MaxPool", maxPool);
  r.add("AveragePool", averagePool);
  r.add("GlobalAveragePool", globalPool<true>);
  r.add("GlobalMaxPool", globalPool<false>);
}

} // namespace tessera
