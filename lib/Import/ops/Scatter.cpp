// Writes by index, and choices by size. What is known at import becomes slices; the rest sums into a table.
#include "lib/Import/Importer.h"
#include "lib/Import/ops/Families.h"
#include "lib/Import/ops/FewElements.h"
#include "lib/Import/ops/TopK.h"

using namespace mlir;
using llvm::Twine;

namespace tessera {
namespace {

/// Where element k of an index is, for the dimensions that it has of `shape`.
Value rowNumber(Emitter &e, llvm::ArrayRef<Value> coordinates, llvm::ArrayRef<int64_t> shape) {
  Value number;
  int64_t stride = 1;
  for (int64_t k = coordinates.size() - 1; k >= 0; --k) {
    Value part = e.binary<nn::MulOp>(coordinates[k], e.scalarLike(coordinates[k], stride));
    number = number ? e.binary<nn::AddOp>(number, part) : part;
    stride *= shape[k];
  }
  return number;
}

/// data with `updates` written over, or added, where they go: `sumsOf` adds values like them at their places, from zero.
void scatter(NodeImport &n, Value data, Value updates, llvm::function_ref<Value(Value)> sumsOf) {
  Emitter &e = n.e;
  std::string reduction = n.stringAttr("reduction", "none");
  if (reduction != "none" && reduction != "add")
    n.fail(n.node.opType + " with reduction '" + reduction + "' is not supported, only none and add are");
  Type type = elementOf(data), computed = isa<FloatType>(type) ? type : Type(e.builder.getF64Type());
  Value rows = e.cast(data, computed), added = sumsOf(e.cast(updates, computed));
  if (reduction == "add")
    return n.out(e.cast(e.binary<nn::AddOp>(rows, added), type));
  Value count = sumsOf(e.splat(computed, 1, shapeOf(updates)));
  Value hit = e.compare(count, e.scalarLike(count, 0), "gt");
  n.out(e.cast(e.emit<nn::SelectOp>({hit, added, rows}), type));
}

/// The same with updates [ids.., row..] that go to the rows `ids` of [rows, row..].
void scatterRows(NodeImport &n, Value data, Value ids, Value updates, Shape table) {
  scatter(n, data, updates, [&](Value values) {
    return n.e.reshape(n.e.emitAs<nn::ScatterAddOp>(elementOf(values), table, {ids, values}), shapeOf(data));
  });
}

/// Where `indices` [.., 1] are start, start + 1, ... of dimension 0: the rest of data around the updates.
bool writesRows(NodeImport &n, Value data, Value indices, Value updates) {
  const HostTensor *known = n.e.known(indices);
  if (!known || shapeOf(indices).back() != 1 || n.stringAttr("reduction", "none") != "none")
    return false;
  std::vector<int64_t> rows = known->dense().i;
  int64_t size = shapeOf(data)[0], count = rows.size();
  for (auto [k, row] : llvm::enumerate(rows)) {
    row += row < 0 ? size : 0;
    if (row != rows[0] + static_cast<int64_t>(k))
      return false;
  }
  if (rows.empty() || rows[0] < 0 || rows[0] + count > size)
    n.fail("the indices are outside dimension 0 of size " + Twine(size));
  Shape block(shapeOf(data));
  block[0] = count;
  llvm::SmallVector<Value> parts;
  if (rows[0] > 0)
    parts.push_back(n.e.slice(data, 0, 0, rows[0]));
  parts.push_back(n.e.reshape(updates, block));
  if (rows[0] + count < size)
    parts.push_back(n.e.slice(data, 0, rows[0] + count, size - rows[0] - count));
  n.out(n.e.concat(parts, 0));
  return true;
}

void scatterND(NodeImport &n) {
  Emitter &e = n.e;
  Value data = n.in(0), indices = n.in(1), updates = n.in(2);
  int64_t indexed = rankOf(indices) ? shapeOf(indices).back() : 0;
  if (indexed < 1 || indexed > rankOf(data))
    n.fail("the last dimension of the indices does not fit the data");
  Shape ids(shapeOf(indices).drop_back()), row(shapeOf(data).drop_front(indexed)), expected(ids);
  llvm::append_range(expected, row);
  if (shapeOf(updates) != llvm::ArrayRef<int64_t>(expected))
    n.fail("the updates do not have the shape that indices and data tell");
  if (writesRows(n, data, indices, updates))
    return;
  llvm::SmallVector<Value> coordinates;
  for (int64_t k = 0; k < indexed; ++k) {
    Value coordinate = e.reshape(e.slice(indices, rankOf(indices) - 1, k, 1), ids);
    coordinates.push_back(wrapped(e, coordinate, shapeOf(data)[k]));
  }
  Shape table(row);
  table.insert(table.begin(), product(shapeOf(data).take_front(indexed)));
  scatterRows(n, data, rowNumber(e, coordinates, shapeOf(data)), updates, table);
}

void scatterElements(NodeImport &n) {
  Emitter &e = n.e;
  Value data = n.in(0), indices = n.in(1), updates = n.in(2);
  int64_t rank = rankOf(data), axis = n.axis(n.intAttr("axis", 0), rank);
  if (rankOf(indices) != rank || shapeOf(updates) != shapeOf(indices))
    n.fail("indices and updates must have one shape, of as many dimensions as the data");
  if (std::optional<FewElements> few = FewElements::along(e, data, indices, axis))
    return scatter(n, data, updates, [&](Value values) { return few->sum(e, values); });
  llvm::SmallVector<Value> coordinates;
  for (int64_t d = 0; d < rank; ++d) {
    if (d != axis && shapeOf(indices)[d] > shapeOf(data)[d])
      n.fail("the indices are larger than the data along dimension " + Twine(d));
    coordinates.push_back(d == axis ? wrapped(e, indices, shapeOf(data)[d])
                                    : e.iota(elementOf(indices), shapeOf(indices), d));
  }
  scatterRows(n, data, rowNumber(e, coordinates, shapeOf(data)), updates, {product(shapeOf(data))});
}

} // namespace

// This compares all with all: meant for a router's experts, not for vocabularies.
Top topOf(Emitter &e, Value x, int64_t axis, int64_t k, bool largest) {
  constexpr int64_t most = 4096;
  int64_t rank = rankOf(x), size = shapeOf(x)[axis];
  if (k < 1 || k > size)
    throw ImportError("TopK of " + Twine(k) + " elements of " + Twine(size));
  if (size > most)
    throw ImportError("TopK along a dimension of " + Twine(size) + ", at most " + Twine(most) +
                      " are supported");
  Type i64 = e.builder.getI64Type();
  // [.., size, other]: the element and what it is compared with.
  auto perm = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::swap(perm[axis], perm.back());
  Value rows = e.transpose(x, perm);
  Shape mine(shapeOf(rows)), other(shapeOf(rows)), own(rank + 1, 1), others(rank + 1, 1);
  mine.push_back(1);
  other.insert(other.end() - 1, 1);
  own[rank - 1] = others[rank] = size;
  Value a = e.reshape(rows, mine), b = e.reshape(rows, other);
  Value i = e.iota(i64, own, rank - 1), j = e.iota(i64, others, rank);
  Value beats = e.compare(b, a, largest ? "gt" : "lt");
  Value tied = e.binary<nn::AndOp>(e.compare(b, a, "eq"), e.compare(j, i, "lt"));
  Value place = e.reduce(e.cast(e.binary<nn::OrOp>(beats, tied), i64), {rank}, "sum", true); // [.., size, 1]
  Shape wanted(rank + 1, 1);
  wanted[rank] = k;
  Value chosen = e.compare(place, e.iota(i64, wanted, rank), "eq"); // [.., size, k]
  auto pick = [&](Value value) {
    Value sum =
        e.reduce(e.emit<nn::SelectOp>({chosen, value, e.scalarLike(value, 0)}), {rank - 1}, "sum", false);
    return e.transpose(sum, perm);
  };
  return {pick(a), pick(i)};
}

namespace {

void topK(NodeImport &n) {
  n.ignore({"sorted"}); // the result always is
  Value x = n.in(0);
  Top top = topOf(n.e, x, n.axis(n.intAttr("axis", -1), rankOf(x)), n.integer(1), n.intAttr("largest", 1));
  n.out(top.values);
  n.out(top.indices, 1);
}

} // namespace

void addScatterHandlers(HandlerRegistry &r) {
  r.add("ScatterND", scatterND);
  r.add("ScatterElements", scatterElements);
  r.add("TopK", topK);
}

} // namespace tessera
