// Look-ups by index. What is known at import becomes slices and broadcasts; the rest table look-ups.
#include "lib/Import/Importer.h"
#include "lib/Import/ops/Families.h"
#include "lib/Import/ops/FewElements.h"

using namespace mlir;
using llvm::Twine;

namespace tessera {
namespace {

/// start, start + step, ...: the indices of a slice; none for others. One index counts as step 1.
struct Progression {
  int64_t start, step;
};
std::optional<Progression> progression(llvm::ArrayRef<int64_t> values) {
  if (values.empty())
    return std::nullopt;
  int64_t step = values.size() > 1 ? values[1] - values[0] : 1;
  if (step < 1)
    return std::nullopt;
  for (size_t k = 1; k < values.size(); ++k)
    if (values[k] - values[k - 1] != step)
      return std::nullopt;
  return Progression{values[0], step};
}

/// Known negative indices count from the end; indices outside the dimension are an error.
std::vector<int64_t> checkedIndices(NodeImport &n, std::vector<int64_t> indices, int64_t size) {
  for (int64_t &index : indices) {
    if (index < -size || index >= size) {
      auto read = n.in(0).getDefiningOp<nn::ReadOp>();
      n.fail("index " + Twine(index) + " is outside a dimension of size " + Twine(size) +
             (read ? " of '" + read.getVariable().str() +
                         "': is a length given by --bind longer than the model allows?"
                   : std::string()));
    }
    index += index < 0 ? size : 0;
  }
  return indices;
}

Value tableLookup(Emitter &e, Value table, Value ids, int64_t frozenRow = -1) {
  mlir::Builder b(table.getContext());
  return e.emit<nn::GatherOp>({table, ids}, {b.getNamedAttr("frozen_row", b.getI64IntegerAttr(frozenRow))});
}

/// The padding index of a torch embedding, whose row is not trained: the third argument in the exporter's
/// record of the call; -1 without.
int64_t paddingRow(const OnnxNode &node) {
  auto record = node.metadata.find("pkg.torch.onnx.fx_node");
  if (record == node.metadata.end())
    return -1;
  llvm::StringRef text(record->second);
  if (!text.contains("aten.embedding.default]"))
    return -1;
  llvm::SmallVector<llvm::StringRef> arguments;
  text.split("(args = (").second.split(')').first.split(arguments, ',');
  int64_t row = -1;
  return arguments.size() < 3 || arguments[2].trim().getAsInteger(10, row) ? -1 : row;
}

/// The indices, input 1.
Value indicesOf(NodeImport &n) {
  Value indices = n.in(1);
  if (!elementOf(indices).isInteger(32) && !elementOf(indices).isInteger(64))
    n.fail("the indices must be int32 or int64");
  return indices;
}

bool isVariable(Value value) { return value.getDefiningOp<nn::ReadOp>() != nullptr; }

void gather(NodeImport &n) {
  Emitter &e = n.e;
  Value data = n.in(0), indices = indicesOf(n);
  int64_t axis = n.axis(n.intAttr("axis", 0), rankOf(data)), size = shapeOf(data)[axis];
  if (const HostTensor *known = e.known(indices)) {
    std::vector<int64_t> values = checkedIndices(n, *known->asInts(), size);
    std::optional<Progression> ramp = progression(values);
    // Embeddings stay look-ups, so that a split of the positions splits them.
    bool embedding = axis == 0 && isVariable(data) && rankOf(indices) > 0;
    if (ramp && !embedding) {
      Shape starts(rankOf(data), 0), sizes(shapeOf(data)), steps(rankOf(data), 1), result(shapeOf(data));
      starts[axis] = ramp->start;
      sizes[axis] = values.size();
      steps[axis] = ramp->step;
      result.erase(result.begin() + axis);
      result.insert(result.begin() + axis, shapeOf(indices).begin(), shapeOf(indices).end());
      return n.out(e.reshape(e.slice(data, starts, sizes, steps), result));
    }
    HostTensor normalized(known->type, known->shape, known->shape);
    normalized.i = values;
    indices = e.constant(normalized.compressed(), n.node.inputs[1]);
  } else if (!isVariable(
                 data)) { // ids of a table are checked by the program's input, others may count from the end
    indices = wrapped(e, indices, size);
  }
  llvm::SmallVector<int64_t> toFront{axis}, back;
  for (int64_t d = 0; d < rankOf(data); ++d)
    if (d != axis)
      toFront.push_back(d);
  Value result = tableLookup(e, e.transpose(data, toFront), indices, axis == 0 ? paddingRow(n.node) : -1);
  int64_t idRank = rankOf(indices); // [ids.., before.., after..] to [before.., ids.., after..]
  for (int64_t d = 0; d < axis; ++d)
    back.push_back(idRank + d);
  for (int64_t d = 0; d < idRank; ++d)
    back.push_back(d);
  for (int64_t d = idRank + axis; d < rankOf(result); ++d)
    back.push_back(d);
  n.out(e.transpose(result, back));
}

/// GatherND whose known indices name, for each indexed dimension, one index or a run along a result dimension
/// of its own: a slice that is transposed and broadcast. Null for others.
Value gatherRuns(NodeImport &n, Value data, const HostTensor &indices) {
  int64_t count = indices.shape.back(), idRank = indices.shape.size() - 1;
  Shape starts(rankOf(data), 0), sizes(shapeOf(data)), steps(rankOf(data), 1), resultShape(indices.shape);
  resultShape.pop_back();
  resultShape.append(shapeOf(data).begin() + count, shapeOf(data).end());
  llvm::SmallVector<int64_t> place(rankOf(data), -1); // of each data dimension in the result
  HostTensor all = indices.dense();
  for (int64_t k = 0; k < count; ++k) {
    HostTensor coordinate(all.type, llvm::ArrayRef<int64_t>(all.shape).drop_back(),
                          llvm::ArrayRef<int64_t>(all.shape).drop_back());
    for (int64_t j = 0; j < coordinate.storedSize(); ++j)
      coordinate.i[j] = all.i[j * count + k];
    coordinate.i = checkedIndices(n, coordinate.i, shapeOf(data)[k]);
    coordinate = coordinate.compressed();
    for (int64_t d = 0; d < idRank; ++d)
      if (coordinate.stored[d] != 1) {
        if (place[k] != -1)
          return nullptr;
        place[k] = d;
      }
    std::optional<Progression> ramp = progression(coordinate.i);
    if (!ramp)
      return nullptr;
    starts[k] = ramp->start;
    sizes[k] = coordinate.storedSize();
    steps[k] = ramp->step;
  }
  for (int64_t k = count; k < rankOf(data); ++k)
    place[k] = idRank + k - count;
  llvm::SmallVector<int64_t> perm;
  Shape kept, spread(resultShape.size(), 1);
  for (size_t target = 0; target < resultShape.size(); ++target) {
    auto from = llvm::find(place, static_cast<int64_t>(target));
    if (from == place.end())
      continue;
    if (std::find(std::next(from), place.end(), static_cast<int64_t>(target)) != place.end())
      return nullptr; // a diagonal
    perm.push_back(from - place.begin());
    spread[target] = sizes[perm.back()];
  }
  Emitter &e = n.e;
  Value value = e.slice(data, starts, sizes, steps);
  for (int64_t k : perm)
    kept.push_back(sizes[k]);
  llvm::SmallVector<int64_t> order(perm); // of the kept dimensions alone
  llvm::sort(order);
  Shape ordered;
  for (int64_t k : order)
    ordered.push_back(sizes[k]);
  value = e.reshape(value, ordered);
  for (int64_t &k : perm)
    k = llvm::find(order, k) - order.begin();
  value = e.transpose(value, perm);
  return e.broadcastTo(e.reshape(value, spread), resultShape);
}

void gatherND(NodeImport &n) {
  Emitter &e = n.e;
  Value data = n.in(0), indices = indicesOf(n);
  if (n.intAttr("batch_dims", 0))
    n.fail("GatherND with batch_dims is not supported");
  int64_t count = rankOf(indices) ? shapeOf(indices).back() : 0;
  if (count < 1 || count > rankOf(data))
    n.fail("the last dimension of the indices does not fit the data");
  if (const HostTensor *known = e.known(indices))
    if (Value value = gatherRuns(n, data, *known))
      return n.out(value);
  // By row-major numbers of the indexed dimensions.
  Shape idShape(shapeOf(indices).drop_back());
  Value number;
  int64_t stride = 1;
  for (int64_t k = count - 1; k >= 0; --k) {
    int64_t size = shapeOf(data)[k];
    Value coordinate = wrapped(e, e.reshape(e.slice(indices, rankOf(indices) - 1, k, 1), idShape), size);
    Value part = e.binary<nn::MulOp>(coordinate, e.scalarLike(coordinate, stride));
    number = number ? e.binary<nn::AddOp>(number, part) : part;
    stride *= size;
  }
  Shape rows(shapeOf(data).drop_front(count));
  rows.insert(rows.begin(), stride);
  n.out(tableLookup(e, e.reshape(data, rows), number));
}

void gatherElements(NodeImport &n) {
  Emitter &e = n.e;
  Value data = n.in(0), indices = indicesOf(n);
  int64_t rank = rankOf(data), axis = n.axis(n.intAttr("axis", 0), rank), size = shapeOf(data)[axis];
  if (rankOf(indices) != rank)
    n.fail("the indices must have as many dimensions as the data");
  if (std::optional<FewElements> few = FewElements::along(e, data, indices, axis))
    return n.out(few->read(e, data));
  Value along = wrapped(e, indices, size);
  Value number;
  int64_t stride = 1;
  for (int64_t d = rank - 1; d >= 0; --d) {
    if (d != axis && shapeOf(indices)[d] > shapeOf(data)[d])
      n.fail("the indices are larger than the data along dimension " + Twine(d));
    Shape own(rank, 1);
    own[d] = shapeOf(indices)[d];
    Value coordinate = d == axis ? along : e.iota(elementOf(indices), own, d);
    Value part = e.binary<nn::MulOp>(coordinate, e.scalarLike(coordinate, stride));
    number = number ? e.binary<nn::AddOp>(number, part) : part;
    stride *= shapeOf(data)[d];
  }
  n.out(tableLookup(e, e.reshape(data, {stride}), number));
}

void trilu(NodeImport &n) {
  Emitter &e = n.e;
  Value x = n.in(0);
  int64_t rank = rankOf(x), k = n.has(1) ? n.integer(1) : 0;
  if (rank < 2)
    n.fail("Trilu needs at least two dimensions");
  Shape rows(rank, 1), columns(rank, 1);
  rows[rank - 2] = shapeOf(x)[rank - 2];
  columns[rank - 1] = shapeOf(x)[rank - 1];
  Type i64 = e.builder.getI64Type();
  Value row = e.iota(i64, rows, rank - 2), column = e.iota(i64, columns, rank - 1);
  Value diagonal = e.binary<nn::AddOp>(row, e.scalarLike(row, k));
  Value kept = e.compare(column, diagonal, n.intAttr("upper", 1) ? "ge" : "le");
  n.out(e.emit<nn::SelectOp>({kept, x, e.scalarLike(x, 0)}));
}

/// The depth of a OneHot, which may be of a floating type.
int64_t depthOf(NodeImport &n) {
  const HostTensor *depth = n.known(1);
  bool isFloat = depth && depth->isFloat() && depth->storedSize() == 1;
  double number = isFloat ? depth->f[0] : static_cast<double>(n.integer(1));
  if (!(number >= 1))
    n.fail("the depth of OneHot must be positive");
  return static_cast<int64_t>(std::min(number, 0x1p62));
}

void oneHot(NodeImport &n) {
  Emitter &e = n.e;
  Value indices = n.in(0);
  int64_t depth = depthOf(n), axis = n.axis(n.intAttr("axis", -1), rankOf(indices) + 1);
  if (shapeOf(n.in(2)) != llvm::ArrayRef<int64_t>{2})
    n.fail("input 2, the values off and on, must be a vector of two");
  Shape spread(shapeOf(indices)), classes(rankOf(indices) + 1, 1);
  spread.insert(spread.begin() + axis, 1);
  classes[axis] = depth;
  Value index = e.reshape(indices, spread);
  Value wrapped = e.binary<nn::AddOp>(index, e.scalarLike(index, depth));
  index = e.emit<nn::SelectOp>({e.compare(index, e.scalarLike(index, 0), "lt"), wrapped, index});
  Value hot = e.compare(index, e.iota(elementOf(index), classes, axis), "eq");
  Value off = e.reshape(e.slice(n.in(2), 0, 0, 1), {}), on = e.reshape(e.slice(n.in(2), 0, 1, 1), {});
  n.out(e.emit<nn::SelectOp>({hot, on, off}));
}

} // namespace

void addIndexHandlers(HandlerRegistry &r) {
  r.add("Gather", gather);
  r.add("GatherND", gatherND);
  r.add("GatherElements", gatherElements);
  r.add("Trilu", trilu);
  r.add("OneHot", oneHot);
}

} // namespace tessera
