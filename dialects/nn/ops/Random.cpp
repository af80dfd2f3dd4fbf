// Dropout and random values: factor rules, per-rank forms, lowering.
#include "dialects/nn/Philox.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/PatternMatch.h"
#include <numbers>

using namespace mlir;
using namespace tessera::nn;

//===- what both have

/// The place of a rank's form fits its result.
template <class Op> static LogicalResult verifyPlace(Op op) {
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
  ValueRange place = op.getPlace();
  auto dims = op.getDims().value_or(ArrayRef<int64_t>());
  if (place.empty())
    return dims.empty() && !op.getGlobal()
               ? success()
               : op.emitOpError("has dims or global, which only a rank's form has");
  if (!place[0].getType().isInteger(64) || place.size() != dims.size() + 1 || !op.getGlobal() ||
      op.getGlobal()->size() != shape.size())
    return op.emitOpError(
        "of a rank needs its id as an i64, a tensor of positions for each of dims, and the global shape");
  for (auto [dim, positions] : llvm::zip(dims, place.drop_front())) {
    auto type = dyn_cast<RankedTensorType>(positions.getType());
    if (dim < 0 || dim >= int64_t(shape.size()) || !type || type.getRank() != 1 ||
        type.getDimSize(0) != shape[dim])
      return op.emitOpError("has positions of type ")
             << positions.getType() << " along dimension " << dim << " of " << shapeText(shape);
  }
  return success();
}

/// A factor for each dimension of the result, which all operands but the key and the place have.
template <class Op> static FactorRule rule(Op op, ArrayRef<std::string> others) {
  std::string out = freshLetters(shapeOf(op->getResult(0)).size());
  SmallVector<std::string> words(others);
  words.push_back("");
  if (!op.getPlace().empty())
    words.push_back("");
  for (int64_t dim : op.getDims().value_or(ArrayRef<int64_t>()))
    words.push_back(std::string(1, out[dim]));
  return lettersRule(op, words, {out});
}

/// The operator on what the rank holds, with the logical positions along dimensions that it holds otherwise
/// than whole and in order.
template <class Op>
static LogicalResult expandPlaced(Op op, LocalBuilder &builder, ValueRange operands,
                                  SmallVectorImpl<Value> &results) {
  SmallVector<Value> all(operands);
  SmallVector<int64_t> dims;
  ArrayRef<int64_t> global = shapeOf(op->getResult(0));
  all.push_back(arith::ConstantIntOp::create(builder, builder.loc(), op.getId(), 64));
  for (int64_t d = 0; d < int64_t(global.size()); ++d)
    if (!builder.isWhole(0, d)) {
      dims.push_back(d);
      all.push_back(builder.logicalIndex(0, d));
    }
  OperationState state(builder.loc(), op->getName());
  state.addOperands(all);
  state.addTypes(builder.resultType(0));
  state.addAttributes(op->getAttrs());
  state.addAttribute("id", builder.getI64IntegerAttr(0)); // an operand now
  state.addAttribute("dims", builder.getDenseI64ArrayAttr(dims));
  state.addAttribute("global", builder.getDenseI64ArrayAttr(global));
  results.push_back(builder.create(state)->getResult(0));
  return success();
}

/// One generic over the result's elements. `body` gets Philox's emitter, the number of the element in the
/// global shape, and the elements of `inputs`, which have the result's shape.
template <class Op>
static Value lowerPlaced(Op op, OpBuilder &builder, ValueRange inputs, Value key, ValueRange place,
                         function_ref<Value(PhiloxEmitter &, Value, ArrayRef<Value>)> body) {
  auto type = plainType(op->getResult(0));
  std::string out = freshLetters(type.getRank());
  ArrayRef<int64_t> global = op.getGlobal() ? *op.getGlobal() : type.getShape(),
                    dims = op.getDims().value_or(ArrayRef<int64_t>());
  SmallVector<Lettered> reads;
  for (Value input : inputs)
    reads.push_back({input, out});
  reads.push_back({key, ""});
  for (auto [dim, positions] : llvm::zip(dims, place.drop_front(!place.empty())))
    reads.push_back({positions, std::string(1, out[dim])});
  PhiloxEmitter e(builder, op.getLoc());
  return e.map(reads, out, type.getShape(), type.getElementType(), [&](ArrayRef<Value> scalars) {
    e.begin(scalars[inputs.size()], place.empty() ? e.integer(op.getId(), 64) : place[0], global);
    SmallVector<Value> positions;
    for (char letter : out)
      positions.push_back(e.position(letter));
    for (auto [dim, position] : llvm::zip(dims, scalars.drop_front(inputs.size() + 1)))
      positions[dim] = position;
    return body(e, e.number(positions, global), scalars);
  });
}

//===- dropout

TESSERA_INFER(DropoutOp) {
  types.push_back(plainType(adaptor.getX()));
  return success();
}

LogicalResult DropoutOp::verify() {
  double ratio = getRatio().convertToDouble();
  if (!(ratio >= 0 && ratio < 1))
    return emitOpError("has a ratio of ") << ratio << ", expected one in [0, 1)";
  return verifyPlace(*this);
}
FactorRule DropoutOp::getFactorRule() { return rule(*this, {freshLetters(shapeOf(getY()).size())}); }
FusionKind DropoutOp::getFusionKind() { return FusionKind::Elementwise; }
LogicalResult DropoutOp::expandLocal(LocalBuilder &builder, ValueRange operands,
                                     SmallVectorImpl<Value> &results) {
  return expandPlaced(*this, builder, operands, results);
}

LogicalResult DropoutOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  grad.add(
      0, DropoutOp::create(grad, grad.loc(), cotangents[0], getKey(), getRatio().convertToDouble(), getId()));
  return success();
}

void DropoutOp::stopTraining(RewriterBase &rewriter) { rewriter.replaceOp(*this, getX()); }

FailureOr<SmallVector<Value>> DropoutOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  double ratio = getRatio().convertToDouble();
  auto body = [&](PhiloxEmitter &e, Value number, ArrayRef<Value> x) {
    return e.dropped(x[0], number, ratio);
  };
  return SmallVector<Value>{
      lowerPlaced(*this, builder, operands.take_front(1), operands[1], operands.drop_front(2), body)};
}

//===- random numbers

LogicalResult RandomOp::verify() {
  if (getDistribution() != "uniform" && getDistribution() != "normal")
    return emitOpError("has distribution '") << getDistribution() << "', expected uniform or normal";
  return verifyPlace(*this);
}
FactorRule RandomOp::getFactorRule() { return rule(*this, {}); }
FusionKind RandomOp::getFusionKind() { return FusionKind::Elementwise; }
LogicalResult RandomOp::expandLocal(LocalBuilder &builder, ValueRange operands,
                                    SmallVectorImpl<Value> &results) {
  return expandPlaced(*this, builder, operands, results);
}

FailureOr<SmallVector<Value>> RandomOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  Type element = elementOf(getResult()), f32 = builder.getF32Type();
  bool isNormal = getDistribution() == "normal";
  auto body = [&](PhiloxEmitter &e, Value number, ArrayRef<Value>) {
    Value value = isNormal ? e.normal(number) : e.uniform(number);
    if (element == f32)
      return value;
    return element.getIntOrFloatBitWidth() > 32
               ? Value(arith::ExtFOp::create(builder, getLoc(), element, value))
               : Value(arith::TruncFOp::create(builder, getLoc(), element, value));
  };
  return SmallVector<Value>{lowerPlaced(*this, builder, {}, operands[0], operands.drop_front(1), body)};
}
