// Mixture of experts: dispatch, combine, and the cotangent of the router's weights.
#include "dialects/nn/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace tessera::nn;

namespace {
/// Letters: those of the tokens' dimensions, then h, k and e.
struct Words {
  std::string tokens, row, choices, all;
  explicit Words(Value ids) : tokens(freshLetters(shapeOf(ids).size() - 1, "hke")) {
    row = tokens + "h";
    choices = tokens + "k";
    all = "e" + row;
  }
};
} // namespace

static RankedTensorType withShape(ArrayRef<int64_t> shape, Value like) {
  return RankedTensorType::get(shape, elementOf(like));
}

/// `row` is [tokens.., h], `all` [experts, tokens.., h], `ids` [tokens.., k].
static LogicalResult checkRouting(std::optional<Location> location, Value ids, ArrayRef<int64_t> row,
                                  ArrayRef<int64_t> all) {
  ArrayRef<int64_t> choices = shapeOf(ids);
  if (choices.empty())
    return inferError(location, "ids must have a last dimension of choices");
  if (row.empty() || row.drop_back() != choices.drop_back())
    return inferError(location, "tokens " + shapeText(row) + " must have the dimensions of ids " +
                                    shapeText(choices) + " but the last, and one more");
  if (all.empty() || all.drop_front() != row)
    return inferError(location, "experts' rows " + shapeText(all) +
                                    " must be a dimension of experts before those of tokens " +
                                    shapeText(row));
  unsigned bits = elementOf(ids).getIntOrFloatBitWidth();
  if (bits != 32 && bits != 64)
    return inferError(location, "ids must be i32 or i64");
  return success();
}
static LogicalResult checkWeights(std::optional<Location> location, Value ids, Value weights, Value like) {
  if (shapeOf(weights) == shapeOf(ids) && elementOf(weights) == elementOf(like))
    return success();
  return inferError(location, "weights " + shapeText(shapeOf(weights)) + " must have the shape of ids " +
                                  shapeText(shapeOf(ids)) + " and the element type of what they multiply");
}

/// The rule of an operator with words for its operands, without `start`, and its result.
static FactorRule routingRule(Operation *op, SmallVector<std::string> words, std::string result) {
  if (op->getNumOperands() > words.size())
    words.push_back("");
  return lettersRule(op, words, {result}, "", "", "e");
}
/// Padded choices are of no expert; padded experts have rows of zeros, as an id that is of no expert has.
static std::optional<double> neutralOf(FactorOpInterface op, unsigned operand, unsigned factor) {
  FactorRule rule = op.getFactorRule();
  if (rule.resultHas(0, factor))
    return std::nullopt;
  return isFloat(op->getOperand(operand)) ? 0 : -1;
}
static LogicalResult expandWithStart(FactorOpInterface op, LocalBuilder &builder, ValueRange operands,
                                     SmallVectorImpl<Value> &results) {
  OperationState state(builder.loc(), op->getName());
  state.addOperands(operands);
  if (int experts = op.getFactorRule().find("e"); builder.isSplit(experts))
    state.addOperands(builder.blockStart(experts));
  state.addTypes(builder.resultType(0));
  results.push_back(builder.create(state)->getResult(0));
  return success();
}

namespace {
struct RoutingEmitter : LinalgEmitter {
  Words w;
  Value start;
  RoutingEmitter(OpBuilder &builder, Location loc, Value ids, Value start)
      : LinalgEmitter(builder, loc), w(ids), start(start) {}

  /// Inside a body: the number of a choice's expert in the block, maybe outside it.
  Value expert(Value id) {
    Type i64 = b.getI64Type();
    if (id.getType() != i64)
      id = arith::ExtSIOp::create(b, loc, i64, id);
    return start ? sub(id, start) : id;
  }
  Value select(Value c, Value x, Value y) { return arith::SelectOp::create(b, loc, c, x, y); }
  /// Inside a body: the element of `y` for the expert of `id` at the loops' token and h; zero where it is not
  /// here.
  Value rowOf(Value y, Value id) {
    Type i64 = b.getI64Type();
    Value e = expert(id);
    // Unsigned, so that experts before the block are outside as well.
    Value isHere =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, e, constant(i64, double(shapeOf(y)[0])));
    SmallVector<Value> where = {
        arith::IndexCastOp::create(b, loc, b.getIndexType(), select(isHere, e, constant(i64, 0)))};
    for (char c : w.row)
      where.push_back(position(c));
    Value element = tensor::ExtractOp::create(b, loc, y, where);
    return select(isHere, element, constant(elementOf(y), 0));
  }
};
} // namespace

//===- dispatch

LogicalResult DispatchOp::verify() {
  if (failed(checkRouting(getLoc(), getIds(), shapeOf(getX()), shapeOf(getResult()))))
    return failure();
  if (elementOf(getX()) != elementOf(getResult()))
    return emitOpError("tokens and result have different element types");
  return checkWeights(getLoc(), getIds(), getWeights(), getX());
}
FactorRule DispatchOp::getFactorRule() {
  Words w(getIds());
  return routingRule(*this, {w.row, w.choices, w.choices}, w.all);
}
std::optional<double> DispatchOp::getNeutral(unsigned operand, unsigned factor) {
  return neutralOf(*this, operand, factor);
}
LogicalResult DispatchOp::expandLocal(LocalBuilder &builder, ValueRange operands,
                                      SmallVectorImpl<Value> &results) {
  return expandWithStart(*this, builder, operands, results);
}
LogicalResult DispatchOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  Location loc = grad.loc();
  if (grad.wants(0))
    grad.add(0, CombineOp::create(grad, loc, cotangents[0], getIds(), getWeights(), getStart()));
  if (grad.wants(2))
    grad.add(2, ExpertDotOp::create(grad, loc, getX(), cotangents[0], getIds(), getStart()));
  return success();
}
FailureOr<SmallVector<Value>> DispatchOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  RoutingEmitter e(builder, getLoc(), operands[1], getStart() ? operands[3] : Value());
  RankedTensorType type = plainType(getResult());
  return SmallVector<Value>{e.sum(
      {{operands[0], e.w.row}, {operands[1], e.w.choices}, {operands[2], e.w.choices}}, e.w.all,
      type.getShape(), type.getElementType(), [&](ArrayRef<Value> a) {
        Value own = arith::IndexCastOp::create(builder, getLoc(), builder.getI64Type(), e.position('e'));
        Value isOwn = arith::CmpIOp::create(builder, getLoc(), arith::CmpIPredicate::eq, e.expert(a[1]), own);
        return e.select(isOwn, e.mul(a[0], a[2]), e.constant(type.getElementType(), 0));
      })};
}

//===- combine

TESSERA_INFER(CombineOp) {
  Value y = adaptor.getY();
  ArrayRef<int64_t> all = shapeOf(y), row = all.empty() ? all : all.drop_front();
  if (failed(checkRouting(location, adaptor.getIds(), row, all)))
    return failure();
  types.push_back(withShape(row, y));
  return success();
}
LogicalResult CombineOp::verify() { return checkWeights(getLoc(), getIds(), getWeights(), getY()); }
FactorRule CombineOp::getFactorRule() {
  Words w(getIds());
  return routingRule(*this, {w.all, w.choices, w.choices}, w.row);
}
std::optional<double> CombineOp::getNeutral(unsigned operand, unsigned factor) {
  return neutralOf(*this, operand, factor);
}
LogicalResult CombineOp::expandLocal(LocalBuilder &builder, ValueRange operands,
                                     SmallVectorImpl<Value> &results) {
  return expandWithStart(*this, builder, operands, results);
}
LogicalResult CombineOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  Location loc = grad.loc();
  if (grad.wants(0))
    grad.add(0, DispatchOp::create(grad, loc, plainType(getY()), cotangents[0], getIds(), getWeights(),
                                   getStart()));
  if (grad.wants(2))
    grad.add(2, ExpertDotOp::create(grad, loc, cotangents[0], getY(), getIds(), getStart()));
  return success();
}
FailureOr<SmallVector<Value>> CombineOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  RoutingEmitter e(builder, getLoc(), operands[1], getStart() ? operands[3] : Value());
  RankedTensorType type = plainType(getResult());
  return SmallVector<Value>{e.sum(
      {{operands[1], e.w.choices}, {operands[2], e.w.choices}}, e.w.row, type.getShape(),
      type.getElementType(), [&](ArrayRef<Value> a) { return e.mul(a[1], e.rowOf(operands[0], a[0])); })};
}

//===- expert_dot

TESSERA_INFER(ExpertDotOp) {
  if (failed(checkRouting(location, adaptor.getIds(), shapeOf(adaptor.getX()), shapeOf(adaptor.getY()))))
    return failure();
  types.push_back(withShape(shapeOf(adaptor.getIds()), adaptor.getX()));
  return success();
}
LogicalResult ExpertDotOp::verify() {
  return elementOf(getX()) == elementOf(getY()) ? success()
                                                : emitOpError("operands have different element types");
}
FactorRule ExpertDotOp::getFactorRule() {
  Words w(getIds());
  return routingRule(*this, {w.row, w.all, w.choices}, w.choices);
}
std::optional<double> ExpertDotOp::getNeutral(unsigned operand, unsigned factor) {
  return neutralOf(*this, operand, factor);
}
LogicalResult ExpertDotOp::expandLocal(LocalBuilder &builder, ValueRange operands,
                                       SmallVectorImpl<Value> &results) {
  return expandWithStart(*this, builder, operands, results);
}
FailureOr<SmallVector<Value>> ExpertDotOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  RoutingEmitter e(builder, getLoc(), operands[2], getStart() ? operands[3] : Value());
  RankedTensorType type = plainType(getResult());
  return SmallVector<Value>{e.sum(
      {{operands[0], e.w.row}, {operands[2], e.w.choices}}, e.w.choices, type.getShape(),
      type.getElementType(), [&](ArrayRef<Value> a) { return e.mul(a[0], e.rowOf(operands[1], a[1])); })};
}
