// The elementwise family: broadcasting types, factor rule, gradients. Its lowering is in
// ElementwiseLowering.cpp.
#include "dialects/nn/OpSupport.h"
#include <cmath>
#include <numbers>

using namespace mlir;
using namespace tessera::nn;

LogicalResult tessera::nn::inferElementwise(std::optional<Location> location, ValueRange operands,
                                            Type element, SmallVectorImpl<Type> &types) {
  size_t rank = 0;
  for (Value operand : operands)
    rank = std::max(rank, shapeOf(operand).size());
  SmallVector<int64_t> shape(rank, 1);
  for (Value operand : operands) {
    ArrayRef<int64_t> from = shapeOf(operand);
    for (size_t d = 0; d < from.size(); ++d) {
      int64_t &to = shape[rank - from.size() + d];
      if (to == 1)
        to = from[d];
      else if (from[d] != 1 && from[d] != to)
        return inferError(location, "operands of shapes " + shapeText(shapeOf(operands[0])) + " and " +
                                        shapeText(from) +
                                        " do not broadcast: sizes from the right must agree or be 1");
    }
  }
  if (operands.size() > 1) {
    Type last = elementOf(operands.back()), before = elementOf(operands[operands.size() - 2]);
    if (last != before)
      return inferError(location, "operands have different element types");
  }
  types.push_back(RankedTensorType::get(shape, element));
  return success();
}

FactorRule tessera::nn::elementwiseRule(Operation *op) {
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
  std::string out = freshLetters(shape.size());
  SmallVector<std::string> words;
  for (Value operand : op->getOperands()) {
    ArrayRef<int64_t> from = shapeOf(operand);
    std::string word = out.substr(shape.size() - from.size());
    for (size_t d = 0; d < from.size(); ++d)
      if (from[d] == 1 && shape[shape.size() - from.size() + d] != 1)
        word[d] = '1';
    words.push_back(word);
  }
  return lettersRule(op, words, {out});
}

LogicalResult CompareOp::verify() {
  if (!llvm::is_contained({"eq", "ne", "lt", "le", "gt", "ge"}, getPredicate()))
    return emitOpError("predicate must be one of eq ne lt le gt ge, not '") << getPredicate() << "'";
  return success();
}

TESSERA_INFER(AccOp) {
  if (operands.empty())
    return inferError(location, "needs at least one term");
  for (Value term : operands)
    if (plainType(term) != plainType(operands[0]))
      return inferError(location, "terms must have one shape and element type");
  types.push_back(plainType(operands[0]));
  return success();
}
FactorRule AccOp::getFactorRule() { return elementwiseRule(*this); }
FusionKind AccOp::getFusionKind() { return FusionKind::Elementwise; }
FailureOr<SmallVector<Value>> AccOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  return lowerElementwise(*this, builder, operands);
}

namespace {
/// The few operators that gradients of elementwise operators are made of, at the builder's place.
struct Emit {
  GradBuilder &grad;
  Location loc = grad.loc();

  Value number(double value, Value like) { return scalarConstant(grad, loc, elementOf(like), value); }
  Value mul(Value x, Value y) { return MulOp::create(grad, loc, x, y); }
  Value add(Value x, Value y) { return AddOp::create(grad, loc, x, y); }
  Value sub(Value x, Value y) { return SubOp::create(grad, loc, x, y); }
  Value div(Value x, Value y) { return DivOp::create(grad, loc, x, y); }
  Value neg(Value x) { return NegOp::create(grad, loc, x); }
  Value zero(Value like) { return number(0, like); }
  Value select(Value condition, Value x, Value y) { return SelectOp::create(grad, loc, condition, x, y); }
  Value compare(Value x, Value y, StringRef predicate) {
    return CompareOp::create(grad, loc, x, y, predicate);
  }
  /// Hands over `value`, of the result's shape, as the cotangent of `operand`.
  void give(unsigned operand, Value value) {
    grad.add(operand, sumToShape(grad, loc, value, plainType(grad.forward()->getOperand(operand))));
  }
};
} // namespace

#define UNARY_VJP(Op, expression)                                                                            \
  LogicalResult Op::buildVjp(GradBuilder &grad, ValueRange cotangents) {                                     \
    Emit e{grad};                                                                                            \
    [[maybe_unused]] Value x = getOperand(), y = getResult();                                                \
    Value dy = cotangents[0];                                                                                \
    grad.add(0, expression);                                                                                 \
    return success();                                                                                        \
  }

UNARY_VJP(NegOp, e.neg(dy))
UNARY_VJP(AbsOp, e.select(e.compare(x, e.zero(x), "gt"), dy,
                          e.select(e.compare(x, e.zero(x), "lt"), e.neg(dy), e.zero(x))))
UNARY_VJP(ExpOp, e.mul(dy, y))
UNARY_VJP(LogOp, e.div(dy, x))
UNARY_VJP(SqrtOp, e.div(e.mul(dy, e.number(0.5, x)), y))
UNARY_VJP(RsqrtOp, e.mul(e.mul(dy, e.number(-0.5, x)), e.mul(y, e.mul(y, y))))
UNARY_VJP(ReciprocalOp, e.neg(e.mul(dy, e.mul(y, y))))
UNARY_VJP(TanhOp, e.mul(dy, e.sub(e.number(1, x), e.mul(y, y))))
UNARY_VJP(SigmoidOp, e.mul(dy, e.mul(y, e.sub(e.number(1, x), y))))
UNARY_VJP(ReluOp, e.select(e.compare(x, e.zero(x), "gt"), dy, e.zero(x)))
UNARY_VJP(SiluOp, SiluGradOp::create(grad, e.loc, x, dy))
UNARY_VJP(GeluOp, GeluGradOp::create(grad, e.loc, x, dy, getTanh()))
UNARY_VJP(ErfOp, e.mul(e.mul(dy, e.number(2 * std::numbers::inv_sqrtpi, x)),
                       ExpOp::create(grad, e.loc, e.neg(e.mul(x, x)))))
UNARY_VJP(SinOp, e.mul(dy, CosOp::create(grad, e.loc, x)))
UNARY_VJP(AtanOp, e.div(dy, e.add(e.number(1, x), e.mul(x, x))))
UNARY_VJP(CosOp, e.neg(e.mul(dy, SinOp::create(grad, e.loc, x))))
#undef UNARY_VJP

LogicalResult CastOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  if (isFloat(getOperand()) && isFloat(getResult()))
    grad.add(0, CastOp::create(grad, grad.loc(), cotangents[0], elementOf(getOperand())));
  return success();
}

LogicalResult AddOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  Emit e{grad};
  for (unsigned i : {0, 1})
    if (grad.wants(i))
      e.give(i, cotangents[0]);
  return success();
}

LogicalResult SubOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  Emit e{grad};
  if (grad.wants(0))
    e.give(0, cotangents[0]);
  if (grad.wants(1))
    e.give(1, e.neg(cotangents[0]));
  return success();
}

LogicalResult MulOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  Emit e{grad};
  if (grad.wants(0))
    e.give(0, e.mul(cotangents[0], getRhs()));
  if (grad.wants(1))
    e.give(1, e.mul(cotangents[0], getLhs()));
  return success();
}

LogicalResult DivOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  Emit e{grad};
  Value scaledCotangent = e.div(cotangents[0], getRhs());
  if (grad.wants(0))
    e.give(0, scaledCotangent);
  if (grad.wants(1))
    e.give(1, e.neg(e.mul(scaledCotangent, getResult())));
  return success();
}

LogicalResult ModOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  Emit e{grad};
  if (grad.wants(0))
    e.give(0, cotangents[0]);
  if (grad.wants(1)) {
    // x mod y is x - y q, with the whole number q = (x - x mod y) / y, which rounding leaves near one.
    Value quotient = e.div(e.sub(getLhs(), getResult()), getRhs());
    Value q = FloorOp::create(grad, e.loc, e.add(quotient, e.number(0.5, quotient)));
    e.give(1, e.neg(e.mul(cotangents[0], q)));
  }
  return success();
}

LogicalResult PowOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  Emit e{grad};
  Value x = getLhs(), y = getRhs(), dz = cotangents[0];
  if (grad.wants(0))
    e.give(0, e.mul(dz, e.mul(y, PowOp::create(grad, e.loc, x, e.sub(y, e.number(1, y))))));
  if (grad.wants(1)) {
    // The logarithm of a base that is not positive has no gradient; x^y ln x tends to 0 at x = 0.
    Value positive = e.compare(x, e.zero(x), "gt");
    Value safe = e.select(positive, x, e.number(1, x));
    e.give(1, e.mul(dz, e.mul(getResult(), LogOp::create(grad, e.loc, safe))));
  }
  return success();
}

/// The operand that was chosen gets the cotangent; the first one where both are equal.
static LogicalResult chosenVjp(GradBuilder &grad, Value dz, StringRef firstWins) {
  Emit e{grad};
  Value first = e.compare(grad.forward()->getOperand(0), grad.forward()->getOperand(1), firstWins);
  if (grad.wants(0))
    e.give(0, e.select(first, dz, e.zero(dz)));
  if (grad.wants(1))
    e.give(1, e.select(first, e.zero(dz), dz));
  return success();
}
LogicalResult MaxOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  return chosenVjp(grad, cotangents[0], "ge");
}
LogicalResult MinOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  return chosenVjp(grad, cotangents[0], "le");
}

LogicalResult SelectOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  Emit e{grad};
  Value dz = cotangents[0];
  if (grad.wants(1))
    e.give(1, e.select(getCondition(), dz, e.zero(dz)));
  if (grad.wants(2))
    e.give(2, e.select(getCondition(), e.zero(dz), dz));
  return success();
}
