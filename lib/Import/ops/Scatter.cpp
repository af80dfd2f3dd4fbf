// Writes by index, and choices by size. What is known at import becomes slices; the rest is merged into a
// table.
#include "lib/Import/Importer.h"
#include "lib/Import/ops/Families.h"
#include "lib/Import/ops/FewElements.h"
#include "lib/Import/ops/TopK.h"
#include "llvm/ADT/APInt.h"
#include <limits>

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

/// How updates that go to one place become one value: a kind of nn.reduce, and where it starts.
struct Merge {
  llvm::StringRef kind;
  Value neutral;
};

Merge sumOf(Emitter &e, Type type) { return {"sum", e.splat(type, -0.0)}; }

Merge mergeOf(NodeImport &n, Type type) {
  std::string reduction = n.stringAttr("reduction", "none");
  if (reduction == "none" || reduction == "add")
    return sumOf(n.e, type);
  if (reduction == "mul")
    return {"prod", n.e.splat(type, 1)};
  bool largest = reduction == "max";
  if (!largest && reduction != "min")
    n.fail(n.node.opType + "'s reduction is '" + reduction + "', expected none, add, mul, max or min");
  llvm::StringRef kind = largest ? "max" : "min";
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (isa<FloatType>(type))
    return {kind, n.e.splat(type, largest ? -infinity : infinity)};
  unsigned bits = type.getIntOrFloatBitWidth();
  llvm::APInt least = type.isUnsignedInteger() ? llvm::APInt(bits, 0) : llvm::APInt::getSignedMinValue(bits);
  return {kind, n.e.constant(HostTensor::splatInt(type, {}, (largest ? least : ~least).getSExtValue()))};
}

/// data with `updates` written over, or merged with, where they go: `merged` makes one value a place of
/// values like them.
void scatter(NodeImport &n, Value data, Value updates,
             llvm::function_ref<Value(Value, const Merge &)> merged) {
  Emitter &e = n.e;
  Type type = elementOf(data), computed = type.isInteger(1) ? Type(e.builder.getI32Type()) : type;
  Merge merge = mergeOf(n, computed);
  std::string reduction = n.stringAttr("reduction", "none");
  Value old = e.cast(data, computed), there = merged(e.cast(updates, computed), merge), result;
  if (reduction == "add")
    result = e.binary<nn::AddOp>(old, there);
  else if (reduction == "mul")
    result = e.binary<nn::MulOp>(old, there);
  else if (reduction == "max")
    result = e.binary<nn::MaxOp>(old, there);
  else if (reduction == "min")
    result = e.binary<nn::MinOp>(old, there);
  else {
    Type f32 = e.builder.getF32Type(); // counts from 2^24 on stay there
    Value count = merged(e.splat(f32, 1, shapeOf(updates)), sumOf(e, f32));
    result = e.emit<nn::SelectOp>({e.compare(count, e.scalarLike(count, 0), "gt"), there, old});
  }
  n.out(e.cast(result, type));
}

/// Values [k, width] that go to the rows `ids` [k] of a table, merged by comparing every id with every row.
Value mergedByComparing(NodeImport &n, Value ids, Value values, int64_t rows, const Merge &merge) {
  Emitter &e = n.e;
  int64_t count = shapeOf(values)[0], width = shapeOf(values)[1];
  if (count * rows > maxHostElements)
    n.fail(n.node.opType + " with reduction '" + n.stringAttr("reduction", "none") + "' of " + Twine(count) +
           " indices into " + Twine(rows) + " places is not supported; none and add are");
  Value chosen = e.compare(e.reshape(ids, {count, 1, 1}), e.iota(elementOf(ids), {1, rows, 1}, 1), "eq");
  Value spread = e.emit<nn::SelectOp>({chosen, e.reshape(values, {count, 1, width}), merge.neutral});
  return e.reduce(spread, {0}, merge.kind, false);
}

/// The same with updates [ids.., row..] that go to the rows `ids` of [rows, row..].
void scatterRows(NodeImport &n, Value data, Value ids, Value updates, Shape table) {
  Emitter &e = n.e;
  int64_t count = typeOf(ids).getNumElements(), width = product(llvm::ArrayRef<int64_t>(table).drop_front());
  scatter(n, data, updates, [&](Value values, const Merge &merge) {
    Value result;
    if (merge.kind == "sum")
      result = e.emitAs<nn::ScatterAddOp>(elementOf(values), table, {ids, values});
    else
      result =
          mergedByComparing(n, e.reshape(ids, {count}), e.reshape(values, {count, width}), table[0], merge);
    return e.reshape(result, shapeOf(data));
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
    return scatter(n, data, updates, [&](Value values, const Merge &merge) {
      return few->merge(e, values, merge.kind, merge.neutral);
    });
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
  Value beats = e.compare(b, a, largest ? "gt" : "lt"), equal = e.compare(b, a, "eq");
  if (isa<FloatType>(elementOf(x))) { // NaN is above all others, as numpy and torch sort
    auto isNan = [&](Value value) { return e.emit<nn::IsNanOp>(value); };
    Value above = largest ? b : a, below = largest ? a : b;
    beats = e.binary<nn::OrOp>(beats, e.binary<nn::AndOp>(isNan(above), e.emit<nn::NotOp>(isNan(below))));
    equal = e.binary<nn::OrOp>(equal, e.binary<nn::AndOp>(isNan(a), isNan(b)));
  }
  Value tied = e.binary<nn::AndOp>(equal, e.compare(j, i, "lt"));
  Value place = e.reduce(e.cast(e.binary<nn::OrOp>(beats, tied), i64), {rank}, "sum", true); // [.., size, 1]
  Shape wanted(rank + 1, 1);
  wanted[rank] = k;
  Value chosen = e.compare(place, e.iota(i64, wanted, rank), "eq"); // [.., size, k]
  auto pick = [&](Value value) {
    Value sum =
        e.reduce(e.emit<nn::SelectOp>({chosen, value, e.scalarLike(value, -0.0)}), {rank - 1}, "sum", false);
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
