// Reductions.
#include "dialects/nn/LibraryCalls.h"
#include "dialects/nn/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

using namespace mlir;
using namespace tessera::nn;

TESSERA_INFER(ReduceOp) {
  ArrayRef<int64_t> shape = shapeOf(adaptor.getOperand()), dims = adaptor.getDims();
  SmallVector<bool> gone(shape.size(), false);
  for (int64_t d : dims) {
    if (d < 0 || d >= int64_t(shape.size()) || gone[d])
      return inferError(location, "dims " + shapeText(dims) +
                                      " must be different dimensions of the operand, of rank " +
                                      Twine(shape.size()));
    gone[d] = true;
  }
  SmallVector<int64_t> out;
  for (size_t d = 0; d < shape.size(); ++d)
    if (!gone[d])
      out.push_back(shape[d]);
  types.push_back(RankedTensorType::get(out, elementOf(adaptor.getOperand())));
  return success();
}

LogicalResult ReduceOp::verify() {
  if (!llvm::is_contained({"sum", "max", "min", "prod"}, getKind()))
    return emitOpError("kind must be sum, max, min or prod, not '") << getKind() << "'";
  return success();
}

/// The letters of the operand and of the result.
static std::pair<std::string, std::string> letters(ReduceOp op) {
  std::string in = freshLetters(shapeOf(op.getOperand()).size()), out;
  for (size_t d = 0; d < in.size(); ++d)
    if (!llvm::is_contained(op.getDims(), int64_t(d)))
      out.push_back(in[d]);
  return {in, out};
}

FactorRule ReduceOp::getFactorRule() {
  auto [in, out] = letters(*this);
  std::string reduced;
  for (int64_t d : getDims())
    reduced.push_back(in[d]);
  bool isSum = getKind() == "sum", isMax = getKind() == "max";
  return lettersRule(*this, {in}, {out}, isMax ? reduced : "", isSum || isMax ? "" : reduced);
}

/// What a reduction starts from, which changes no number: a sum from -0, but of nothing it is 0.
static TypedAttr start(ReduceOp op) {
  Type element = elementOf(op.getOperand());
  StringRef kind = op.getKind();
  double noTerm = llvm::is_contained(shapeOf(op.getOperand()), 0) ? 0.0 : -0.0;
  if (auto type = dyn_cast<FloatType>(element))
    return FloatAttr::get(type, kind == "max"    ? lowest(type)
                                : kind == "min"  ? -lowest(type)
                                : kind == "prod" ? 1
                                                 : noTerm);
  unsigned bits = element.getIntOrFloatBitWidth();
  bool isUnsigned = element.isUnsignedInteger();
  element = loweredType(element);
  if (bits == 1) // false is less than true
    return IntegerAttr::get(element, kind == "min" || kind == "prod");
  if (isUnsigned && (kind == "max" || kind == "min"))
    return IntegerAttr::get(element, kind == "max" ? APInt::getZero(bits) : APInt::getAllOnes(bits));
  return IntegerAttr::get(element, kind == "max"   ? APInt::getSignedMinValue(bits)
                                   : kind == "min" ? APInt::getSignedMaxValue(bits)
                                                   : APInt(bits, kind == "prod"));
}

std::optional<double> ReduceOp::getNeutral(unsigned, unsigned factor) {
  FactorRule rule = getFactorRule();
  if (rule.resultHas(0, factor))
    return std::nullopt;
  TypedAttr value = start(*this);
  if (auto number = dyn_cast<FloatAttr>(value))
    return number.getValueAsDouble();
  APInt number = cast<IntegerAttr>(value).getValue();
  bool isNatural = number.getBitWidth() == 1 || elementOf(getOperand()).isUnsignedInteger();
  return isNatural ? double(number.getZExtValue()) : double(number.getSExtValue());
}

LogicalResult ReduceOp::expandLocal(LocalBuilder &builder, ValueRange operands,
                                    SmallVectorImpl<Value> &results) {
  Value local =
      ReduceOp::create(builder, builder.loc(), builder.resultType(0), operands[0], getDims(), getKind());
  if (getKind() == "max") {
    FactorRule rule = getFactorRule();
    for (int64_t d : getDims())
      local = builder.allReduce(local, rule.operands[0][d], "max");
  }
  results.push_back(local);
  return success();
}

FusionKind ReduceOp::getFusionKind() {
  return getDims().size() == 1 && getDims()[0] == int64_t(shapeOf(getOperand()).size()) - 1
             ? FusionKind::Row
             : FusionKind::Alone;
}

LogicalResult ReduceOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  Location loc = grad.loc();
  RankedTensorType type = plainType(getOperand());
  SmallVector<int64_t> kept;
  for (int64_t d = 0; d < type.getRank(); ++d)
    if (!llvm::is_contained(getDims(), d))
      kept.push_back(d);
  Value wide = BroadcastOp::create(grad, loc, type, cotangents[0], kept);
  if (getKind() == "sum") {
    grad.add(0, wide);
    return success();
  }
  if (getKind() == "prod") {
    // The product of the others: of what is not zero, divided by the element itself; zero beside another
    // zero.
    Type element = type.getElementType();
    Value zero = scalarConstant(grad, loc, element, 0), one = scalarConstant(grad, loc, element, 1);
    Value isZero = CompareOp::create(grad, loc, getOperand(), zero, "eq");
    Value other = SelectOp::create(grad, loc, isZero, one, getOperand());
    Value rest =
        BroadcastOp::create(grad, loc, type, ReduceOp::create(grad, loc, other, getDims(), "prod"), kept);
    Value hole = CastOp::create(grad, loc, isZero, element);
    Value holes = BroadcastOp::create(grad, loc, type, sumOver(grad, loc, hole, getDims()), kept);
    Value alone = CompareOp::create(grad, loc, SubOp::create(grad, loc, holes, hole), zero, "eq");
    Value slope = SelectOp::create(grad, loc, alone, DivOp::create(grad, loc, rest, other), zero);
    grad.add(0, MulOp::create(grad, loc, wide, slope));
    return success();
  }
  // Elements that share the extreme share its cotangent.
  Value result = BroadcastOp::create(grad, loc, type, getResult(), kept);
  Value chosen = CastOp::create(grad, loc, CompareOp::create(grad, loc, getOperand(), result, "eq"),
                                type.getElementType());
  Value count = BroadcastOp::create(grad, loc, type, sumOver(grad, loc, chosen, getDims()), kept);
  grad.add(0, MulOp::create(grad, loc, wide, DivOp::create(grad, loc, chosen, count)));
  return success();
}

FailureOr<SmallVector<Value>> ReduceOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgEmitter e(builder, getLoc());
  auto [in, out] = letters(*this);
  RankedTensorType type = plainType(getResult());
  Type element = type.getElementType();
  Value first = arith::ConstantOp::create(builder, getLoc(), start(*this));
  Value filled =
      linalg::FillOp::create(builder, getLoc(), first, e.empty(type.getShape(), element)).getResult(0);
  return e.generic({{operands[0], in}}, {{filled, out}}, [&](ArrayRef<Value> args) {
    Value x = args[0], sum = args[1];
    if (getKind() == "sum")
      return SmallVector<Value>{e.add(sum, x)};
    if (getKind() == "prod")
      return SmallVector<Value>{e.mul(sum, x)};
    using arith::AtomicRMWKind;
    bool isMax = getKind() == "max", isNatural = element.isInteger(1) || element.isUnsignedInteger();
    AtomicRMWKind kind = isa<FloatType>(element) ? (isMax ? AtomicRMWKind::maximumf : AtomicRMWKind::minimumf)
                         : isNatural             ? (isMax ? AtomicRMWKind::maxu : AtomicRMWKind::minu)
                                                 : (isMax ? AtomicRMWKind::maxs : AtomicRMWKind::mins);
    return SmallVector<Value>{arith::getReductionOp(kind, builder, getLoc(), sum, x)};
  });
}

//===- sum_squares

TESSERA_INFER(SumSquaresOp) {
  types.push_back(RankedTensorType::get({}, wideOf(elementOf(adaptor.getOperand()))));
  return success();
}
FactorRule SumSquaresOp::getFactorRule() {
  return lettersRule(*this, {freshLetters(shapeOf(getOperand()).size())}, {""});
}
std::optional<double> SumSquaresOp::getNeutral(unsigned, unsigned) { return 0; }

FailureOr<SmallVector<Value>> SumSquaresOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgEmitter e(builder, getLoc());
  return SmallVector<Value>{e.sum({{operands[0], freshLetters(shapeOf(operands[0]).size())}}, "", {},
                                  elementOf(operands[0]),
                                  [&](ArrayRef<Value> a) { return e.mul(a[0], a[0]); })};
}

std::optional<LibraryCall> SumSquaresOp::getLibraryCall() {
  if (!isAllF32(*this))
    return std::nullopt;
  CallAttrs attrs(getContext());
  int64_t count = plainType(getOperand()).getNumElements();
  attrs.set("counts", ArrayRef<int64_t>(count));
  return attrs.call("sum_squares", {0, 1});
}
double SumSquaresOp::getFlops() { return 2.0 * plainType(getOperand()).getNumElements(); }
