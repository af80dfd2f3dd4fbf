// Constants and iota.
#include "dialects/nn/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace tessera::nn;

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

LogicalResult ConstantOp::verify() {
  auto type = cast<ShapedType>(getValue().getType());
  if (!sameShapesAndElements(TypeRange(Type(type)), getOperation()->getResultTypes()))
    return emitOpError("value of type ") << type << " does not fit the result";
  return success();
}

FactorRule ConstantOp::getFactorRule() {
  std::string out = freshLetters(shapeOf(getResult()).size());
  auto dense = dyn_cast<DenseElementsAttr>(getValue());
  return lettersRule(*this, {}, {out}, "", dense && dense.isSplat() ? "" : out, "");
}

/// The elements of `value` in the order they are held in, `held` by dimension (empty: as they are).
static DenseElementsAttr reordered(DenseElementsAttr value, ArrayRef<SmallVector<int64_t>> held) {
  ArrayRef<int64_t> shape = value.getType().getShape();
  auto elements = llvm::to_vector(value.getValues<Attribute>());
  SmallVector<Attribute> moved;
  for (int64_t i = 0, n = elements.size(); i < n; ++i) {
    int64_t from = 0, unit = 1, rest = i;
    for (int64_t d = int64_t(shape.size()) - 1; d >= 0; --d) {
      int64_t at = rest % shape[d];
      from += unit * (held[d].empty() ? at : held[d][at]);
      unit *= shape[d];
      rest /= shape[d];
    }
    moved.push_back(elements[from]);
  }
  return DenseElementsAttr::get(value.getType(), moved);
}

LogicalResult ConstantOp::expandLocal(LocalBuilder &builder, ValueRange, SmallVectorImpl<Value> &results) {
  RankedTensorType type = builder.resultType(0);
  auto dense = dyn_cast<DenseElementsAttr>(getValue());
  SmallVector<SmallVector<int64_t>> held;
  for (int64_t d = 0; d < type.getRank(); ++d)
    held.push_back(builder.heldOrder(0, d));
  if (llvm::any_of(held, [](auto &order) { return !order.empty(); }) && !(dense && dense.isSplat())) {
    // Such a dimension has no padding.
    if (!dense)
      return emitOpError(
          "has its values in a resource, which cannot be put in zig-zag order; write them out");
    Value whole = ConstantOp::create(builder, builder.loc(), plainType(getResult()), reordered(dense, held));
    results.push_back(paddedTo(builder, builder.loc(), whole, type.getShape()));
    return success();
  }
  if (type.getShape() == shapeOf(getResult())) {
    results.push_back(ConstantOp::create(builder, builder.loc(), type, getValue()));
    return success();
  }
  if (!dense)
    return emitOpError("has its values in a resource, which cannot be padded or cut; write them out");
  if (dense.isSplat()) {
    results.push_back(ConstantOp::create(builder, builder.loc(), type, dense.resizeSplat(type)));
    return success();
  }
  Value whole = ConstantOp::create(builder, builder.loc(), plainType(getResult()), getValue());
  results.push_back(paddedTo(builder, builder.loc(), whole, type.getShape()));
  return success();
}

FailureOr<SmallVector<Value>> ConstantOp::lowerToLinalg(OpBuilder &builder, ValueRange) {
  auto type = loweredTensor(getResult());
  auto dense = dyn_cast<DenseElementsAttr>(getValue());
  if (dense && dense.getElementType() != type.getElementType())
    dense = dense.bitcast(type.getElementType());
  if (dense && dense.isSplat() && type.getRank() > 0) {
    LinalgEmitter e(builder, getLoc());
    Value scalar =
        arith::ConstantOp::create(builder, getLoc(), cast<TypedAttr>(dense.getSplatValue<Attribute>()));
    return SmallVector<Value>{e.map({}, freshLetters(type.getRank()), type.getShape(), type.getElementType(),
                                    [&](ArrayRef<Value>) { return scalar; })};
  }
  TypedAttr value = dense ? TypedAttr(dense) : cast<TypedAttr>(getValue());
  return SmallVector<Value>{arith::ConstantOp::create(builder, getLoc(), type, value)};
}

LogicalResult IotaOp::verify() {
  int64_t rank = shapeOf(getResult()).size();
  if (int64_t(getDim()) < 0 || int64_t(getDim()) >= rank)
    return emitOpError("dim ") << int64_t(getDim()) << " is not a dimension of a result of rank " << rank;
  return success();
}

FactorRule IotaOp::getFactorRule() {
  return lettersRule(*this, {}, {freshLetters(shapeOf(getResult()).size())});
}

LogicalResult IotaOp::expandLocal(LocalBuilder &builder, ValueRange, SmallVectorImpl<Value> &results) {
  RankedTensorType type = builder.resultType(0);
  Value positions = builder.logicalIndex(0, getDim());
  if (type.getElementType() != elementOf(positions))
    positions = CastOp::create(builder, builder.loc(), positions, type.getElementType());
  if (type.getRank() > 1)
    positions =
        BroadcastOp::create(builder, builder.loc(), type, positions, ArrayRef<int64_t>{int64_t(getDim())});
  results.push_back(positions);
  return success();
}

FailureOr<SmallVector<Value>> IotaOp::lowerToLinalg(OpBuilder &builder, ValueRange) {
  LinalgEmitter e(builder, getLoc());
  auto type = loweredTensor(getResult());
  std::string out = freshLetters(type.getRank());
  Type element = type.getElementType();
  return SmallVector<Value>{e.map({}, out, type.getShape(), element, [&](ArrayRef<Value>) -> Value {
    Type integer = isa<FloatType>(element) ? Type(builder.getI64Type()) : element;
    Value position = arith::IndexCastOp::create(builder, getLoc(), integer, e.position(out[getDim()]));
    if (integer == element)
      return position;
    return arith::SIToFPOp::create(builder, getLoc(), element, position);
  })};
}
