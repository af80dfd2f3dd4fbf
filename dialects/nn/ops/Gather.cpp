// Table look-up and its gradient.
#include "dialects/nn/LibraryCalls.h"
#include "dialects/nn/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace tessera::nn;

namespace {
/// Letters: V the rows, then those of the ids and those of a row.
struct Words {
  std::string ids, row;
  Words(size_t idRank, size_t rowRank) {
    std::string all = freshLetters(idRank + rowRank, "V");
    ids = all.substr(0, idRank);
    row = all.substr(idRank);
  }
};
/// The place of an id in a table's block, and whether it is there.
struct Place {
  Value row, isInside;
  Place(LinalgEmitter &e, Value id, Value start, int64_t rows) {
    Type i64 = e.b.getI64Type();
    if (id.getType() != i64)
      id = arith::ExtSIOp::create(e.b, e.loc, i64, id);
    if (start)
      id = e.sub(id, start);
    // Unsigned, so that ids before the block are outside as well.
    isInside =
        arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::ult, id, e.constant(i64, double(rows)));
    Value safe = arith::SelectOp::create(e.b, e.loc, isInside, id, e.constant(i64, 0));
    row = arith::IndexCastOp::create(e.b, e.loc, e.b.getIndexType(), safe);
  }
};
} // namespace

//===- gather

TESSERA_INFER(GatherOp) {
  if (shapeOf(adaptor.getTable()).empty())
    return inferError(location, "the table needs at least one dimension");
  SmallVector<int64_t> shape(shapeOf(adaptor.getIds()));
  llvm::append_range(shape, shapeOf(adaptor.getTable()).drop_front());
  types.push_back(RankedTensorType::get(shape, elementOf(adaptor.getTable())));
  return success();
}
LogicalResult GatherOp::verify() {
  unsigned bits = elementOf(getIds()).getIntOrFloatBitWidth();
  return bits == 32 || bits == 64 ? success() : emitOpError("ids must be i32 or i64");
}
FactorRule GatherOp::getFactorRule() {
  Words w(shapeOf(getIds()).size(), shapeOf(getTable()).size() - 1);
  SmallVector<std::string> words = {"V" + w.row, w.ids};
  if (getStart())
    words.push_back("");
  return lettersRule(*this, words, {w.ids + w.row}, "", "", "V");
}
LogicalResult GatherOp::expandLocal(LocalBuilder &builder, ValueRange operands,
                                    SmallVectorImpl<Value> &results) {
  int rows = getFactorRule().find("V");
  Value start = builder.isSplit(rows) ? builder.blockStart(rows) : Value();
  results.push_back(GatherOp::create(builder, builder.loc(), operands[0], operands[1], start));
  return success();
}
LogicalResult GatherOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  if (!grad.wants(0))
    return success();
  Location loc = grad.loc();
  Value ids = getIds();
  if (int64_t frozen = getFrozenRow(); frozen >= 0) {
    // -1 is no row, and what is added to no row is skipped.
    Value isFrozen =
        CompareOp::create(grad, loc, ids, scalarConstant(grad, loc, elementOf(ids), double(frozen)), "eq");
    ids = SelectOp::create(grad, loc, isFrozen, scalarConstant(grad, loc, elementOf(ids), -1), ids);
  }
  grad.add(0, ScatterAddOp::create(grad, loc, plainType(getTable()), ids, cotangents[0], getStart()));
  return success();
}
// As many rows of the table as there are ids.
std::optional<double> GatherOp::getBytesRead() {
  return bytesOf(getIds().getType()) + bytesOf(getResult().getType());
}
bool GatherOp::keepsWide(unsigned operand) { return operand == 0; }
FailureOr<SmallVector<Value>> GatherOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgEmitter e(builder, getLoc());
  Words w(shapeOf(operands[1]).size(), shapeOf(operands[0]).size() - 1);
  auto type = loweredTensor(getResult());
  return SmallVector<Value>{
      e.map({{operands[1], w.ids}}, w.ids + w.row, type.getShape(), type.getElementType(),
            [&](ArrayRef<Value> a) -> Value {
              Place place(e, a[0], getStart() ? operands[2] : Value(), shapeOf(operands[0])[0]);
              SmallVector<Value> where = {place.row};
              for (char c : w.row)
                where.push_back(e.position(c));
              Value element = tensor::ExtractOp::create(builder, getLoc(), operands[0], where);
              return arith::SelectOp::create(builder, getLoc(), place.isInside, element,
                                             e.constant(type.getElementType(), 0));
            })};
}

/// Sets what gather and scatter_add share: `table` is theirs, read or written.
static void setTable(CallAttrs &attrs, Value table, Value ids) {
  int64_t rows = shapeOf(table)[0];
  attrs.set("rows", rows);
  attrs.set("width", plainType(table).getNumElements() / std::max<int64_t>(rows, 1));
  attrs.set("count", plainType(ids).getNumElements());
  attrs.set("ids", dtypeName(elementOf(ids)));
}
std::optional<LibraryCall> GatherOp::getLibraryCall() {
  StringRef dtype = dtypeName(elementOf(getTable()));
  if (dtype.empty() || elementOf(getResult()) != elementOf(getTable()) || shapeOf(getTable())[0] == 0)
    return std::nullopt;
  CallAttrs attrs(getContext());
  setTable(attrs, getTable(), getIds());
  attrs.set("dtype", dtype);
  return attrs.call("gather", {0, 1, int(getNumOperands())});
}

//===- scatter_add

LogicalResult ScatterAddOp::verify() {
  ArrayRef<int64_t> ids = shapeOf(getIds()), updates = shapeOf(getUpdates()), table = shapeOf(getResult());
  if (table.empty() || updates.size() + 1 != ids.size() + table.size() ||
      updates.take_front(ids.size()) != ids || updates.drop_front(ids.size()) != table.drop_front())
    return emitOpError("updates ") << shapeText(updates) << " must have the dimensions of ids "
                                   << shapeText(ids) << " and then those of a row of " << shapeText(table);
  if (elementOf(getUpdates()) != elementOf(getResult()))
    return emitOpError("updates and result have different element types");
  unsigned bits = elementOf(getIds()).getIntOrFloatBitWidth();
  return bits == 32 || bits == 64 ? success() : emitOpError("ids must be i32 or i64");
}
FactorRule ScatterAddOp::getFactorRule() {
  Words w(shapeOf(getIds()).size(), shapeOf(getResult()).size() - 1);
  SmallVector<std::string> words = {w.ids, w.ids + w.row};
  if (getStart())
    words.push_back("");
  return lettersRule(*this, words, {"V" + w.row}, "", "", "V");
}
// -1 is in no block, so that padded updates are skipped.
std::optional<double> ScatterAddOp::getNeutral(unsigned operand, unsigned factor) {
  return operand == 0 && getFactorRule().operandHas(0, factor) ? std::optional<double>(-1) : std::nullopt;
}
LogicalResult ScatterAddOp::expandLocal(LocalBuilder &builder, ValueRange operands,
                                        SmallVectorImpl<Value> &results) {
  int rows = getFactorRule().find("V");
  Value start = builder.isSplit(rows) ? builder.blockStart(rows) : Value();
  results.push_back(
      ScatterAddOp::create(builder, builder.loc(), builder.resultType(0), operands[0], operands[1], start));
  return success();
}
LogicalResult ScatterAddOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  if (!grad.wants(1))
    return success();
  Location loc = grad.loc();
  Value ids = getIds();
  // What is added to no row has no gradient. Where rows are split and padded, the gather would find one in
  // the padding.
  if (!getStart()) {
    auto number = [&](double value) { return scalarConstant(grad, loc, elementOf(ids), value); };
    Value isRow = CompareOp::create(grad, loc, ids, number(double(shapeOf(getResult())[0])), "lt");
    ids = SelectOp::create(grad, loc, isRow, ids, number(-1));
  }
  grad.add(1, GatherOp::create(grad, loc, cotangents[0], ids, getStart()));
  return success();
}
FailureOr<SmallVector<Value>> ScatterAddOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  Location loc = getLoc();
  LinalgEmitter e(builder, loc);
  auto type = loweredTensor(getResult());
  Type element = type.getElementType();
  int64_t count = plainType(operands[0]).getNumElements(), rows = type.getShape()[0];
  int64_t width = type.getNumElements() / std::max<int64_t>(rows, 1);
  auto reshaped = [&](Value value, ArrayRef<int64_t> shape) -> Value {
    auto target = RankedTensorType::get(shape, elementOf(value));
    if (plainType(value) == target)
      return value;
    auto shapeType = RankedTensorType::get({int64_t(shape.size())}, builder.getI64Type());
    Value dims =
        arith::ConstantOp::create(builder, loc, shapeType, DenseIntElementsAttr::get(shapeType, shape));
    return tensor::ReshapeOp::create(builder, loc, target, value, dims);
  };
  Value ids = reshaped(operands[0], {count}), updates = reshaped(operands[1], {count, width});
  Value start = getStart() ? operands[2] : Value();
  auto sliceOf = [&](Value from, Value row) {
    return tensor::ExtractSliceOp::create(
        builder, loc, RankedTensorType::get({width}, element), from,
        ArrayRef<OpFoldResult>{row, builder.getIndexAttr(0)},
        ArrayRef<OpFoldResult>{builder.getIndexAttr(1), builder.getIndexAttr(width)},
        ArrayRef<OpFoldResult>{builder.getIndexAttr(1), builder.getIndexAttr(1)});
  };
  // One token after the other: ids may repeat.
  auto loop = scf::ForOp::create(builder, loc, e.index(0), e.index(count), e.index(1),
                                 e.filled({rows, width}, element, -0.0));
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(loop.getBody());
    Value token = loop.getInductionVar(), table = loop.getRegionIterArg(0);
    Place place(e, tensor::ExtractOp::create(builder, loc, ids, token), start, rows);
    Value update = sliceOf(updates, token), row = sliceOf(table, place.row);
    Value sum = e.generic({{update, "h"}}, {{row, "h"}}, [&](ArrayRef<Value> a) {
      return SmallVector<Value>{
          arith::SelectOp::create(builder, loc, place.isInside, e.add(a[1], a[0]), a[1])};
    })[0];
    Value next = tensor::InsertSliceOp::create(
        builder, loc, sum, table, ArrayRef<OpFoldResult>{place.row, builder.getIndexAttr(0)},
        ArrayRef<OpFoldResult>{builder.getIndexAttr(1), builder.getIndexAttr(width)},
        ArrayRef<OpFoldResult>{builder.getIndexAttr(1), builder.getIndexAttr(1)});
    scf::YieldOp::create(builder, loc, next);
  }
  return SmallVector<Value>{reshaped(loop.getResult(0), type.getShape())};
}
std::optional<LibraryCall> ScatterAddOp::getLibraryCall() {
  if (!elementOf(getResult()).isF32() || shapeOf(getResult())[0] == 0)
    return std::nullopt;
  CallAttrs attrs(getContext());
  setTable(attrs, getResult(), getIds());
  return attrs.call("scatter_add", {0, 1, int(getNumOperands())});
}
double ScatterAddOp::getFlops() { return double(plainType(getUpdates()).getNumElements()); }
