// Normalisations: types, factor rules, what padding must hold, gradients. The per-rank forms are in
// NormalizeLocal.cpp, lowerings in NormalizeLowering.cpp.
#include "dialects/nn/OpSupport.h"

using namespace mlir;
using namespace tessera::nn;

/// The letters of `value`, of its leading dimensions, and of its last one.
namespace {
struct Words {
  std::string all, tokens, last;
  explicit Words(Value value)
      : all(freshLetters(shapeOf(value).size())), tokens(all.substr(0, all.size() - 1)),
        last(all.substr(all.size() - 1)) {}
};
} // namespace

static LogicalResult checkRank(std::optional<Location> location, Value value) {
  return shapeOf(value).empty() ? inferError(location, "needs an operand with at least one dimension")
                                : success();
}
static RankedTensorType tokensType(Value value) {
  return RankedTensorType::get(shapeOf(value).drop_back(), wideOf(elementOf(value)));
}
static RankedTensorType lastType(Value value) {
  return RankedTensorType::get(shapeOf(value).take_back(), elementOf(value));
}
static RankedTensorType wideLastType(Value value) { return lastType(value).clone(wideOf(elementOf(value))); }
/// `values` have `type`, or are wider.
static LogicalResult checkTypes(std::optional<Location> location, ValueRange values, RankedTensorType type,
                                StringRef what) {
  for (Value value : values)
    if (!sameOrWider(TypeRange(Type(type)), TypeRange(Type(plainType(value))))) {
      std::string text;
      llvm::raw_string_ostream(text) << plainType(value) << ", expected " << type;
      return inferError(location, what + " has type " + text);
    }
  return success();
}

//===- softmax

TESSERA_INFER(SoftmaxOp) {
  types.push_back(plainType(adaptor.getOperand()));
  return checkRank(location, adaptor.getOperand());
}
FactorRule SoftmaxOp::getFactorRule() {
  Words w(getOperand());
  return lettersRule(*this, {w.all}, {w.all}, "", w.last, "");
}
std::optional<double> SoftmaxOp::getNeutral(unsigned, unsigned factor) {
  return factor + 1 == shapeOf(getOperand()).size() ? std::optional<double>(lowest(elementOf(getOperand())))
                                                    : std::nullopt;
}
FusionKind SoftmaxOp::getFusionKind() { return FusionKind::Row; }
LogicalResult SoftmaxOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  grad.add(0, SoftmaxGradOp::create(grad, grad.loc(), getResult(), cotangents[0]));
  return success();
}

TESSERA_INFER(SoftmaxGradOp) {
  types.push_back(plainType(adaptor.getY()));
  if (failed(checkRank(location, adaptor.getY())))
    return failure();
  return checkTypes(location, {adaptor.getDy()}, plainType(adaptor.getY()), "dy");
}
FactorRule SoftmaxGradOp::getFactorRule() {
  Words w(getY());
  return lettersRule(*this, {w.all, w.all}, {w.all}, "", w.last, "");
}
std::optional<double> SoftmaxGradOp::getNeutral(unsigned, unsigned factor) {
  return factor + 1 == shapeOf(getY()).size() ? std::optional<double>(0) : std::nullopt;
}
FusionKind SoftmaxGradOp::getFusionKind() { return FusionKind::Row; }

//===- layer_norm

TESSERA_INFER(LayerNormOp) {
  Value x = adaptor.getX();
  if (failed(checkRank(location, x)) ||
      failed(checkTypes(location, {adaptor.getGamma(), adaptor.getBeta()}, lastType(x), "gamma or beta")))
    return failure();
  types.append({plainType(x), tokensType(x), tokensType(x)});
  return success();
}
LogicalResult LayerNormOp::verify() {
  if (!(getEps().convertToDouble() >= 0))
    return emitOpError("eps must not be negative");
  return success();
}
FactorRule LayerNormOp::getFactorRule() {
  Words w(getX());
  return lettersRule(*this, {w.all, w.last, w.last}, {w.all, w.tokens, w.tokens}, w.last);
}
std::optional<double> LayerNormOp::getNeutral(unsigned operand, unsigned factor) {
  return operand == 0 && factor + 1 == shapeOf(getX()).size() ? std::optional<double>(0) : std::nullopt;
}
FusionKind LayerNormOp::getFusionKind() { return FusionKind::Row; }
LogicalResult LayerNormOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  if (cotangents[1] || cotangents[2])
    return emitOpError("mean and rstd are not differentiated");
  Value dy = cotangents[0];
  if (grad.wants(0))
    grad.add(0, LayerNormGradOp::create(grad, grad.loc(), dy, getX(), getMean(), getRstd(), getGamma()));
  if (grad.wants(1) || grad.wants(2)) {
    auto affine = LayerNormGradAffineOp::create(grad, grad.loc(), dy, getX(), getMean(), getRstd());
    grad.add(1, castTo(grad, grad.loc(), affine.getDgamma(), elementOf(getGamma())));
    grad.add(2, castTo(grad, grad.loc(), affine.getDbeta(), elementOf(getBeta())));
  }
  return success();
}
bool LayerNormOp::keepsWide(unsigned operand) { return operand != 0; }

TESSERA_INFER(LayerNormGradOp) {
  Value x = adaptor.getX();
  if (failed(checkRank(location, x)) || failed(checkTypes(location, {adaptor.getDy()}, plainType(x), "dy")) ||
      failed(checkTypes(location, {adaptor.getMean(), adaptor.getRstd()}, tokensType(x), "mean or rstd")) ||
      failed(checkTypes(location, {adaptor.getGamma()}, lastType(x), "gamma")))
    return failure();
  types.push_back(plainType(x));
  return success();
}
FactorRule LayerNormGradOp::getFactorRule() {
  Words w(getX());
  return lettersRule(*this, {w.all, w.all, w.tokens, w.tokens, w.last}, {w.all}, w.last);
}
std::optional<double> LayerNormGradOp::getNeutral(unsigned, unsigned factor) {
  return factor + 1 == shapeOf(getX()).size() ? std::optional<double>(0) : std::nullopt;
}
FusionKind LayerNormGradOp::getFusionKind() { return FusionKind::Row; }

TESSERA_INFER(LayerNormGradAffineOp) {
  Value x = adaptor.getX();
  if (failed(checkRank(location, x)) || failed(checkTypes(location, {adaptor.getDy()}, plainType(x), "dy")) ||
      failed(checkTypes(location, {adaptor.getMean(), adaptor.getRstd()}, tokensType(x), "mean or rstd")))
    return failure();
  types.append({wideLastType(x), wideLastType(x)});
  return success();
}
FactorRule LayerNormGradAffineOp::getFactorRule() {
  Words w(getX());
  return lettersRule(*this, {w.all, w.all, w.tokens, w.tokens}, {w.last, w.last});
}
std::optional<double> LayerNormGradAffineOp::getNeutral(unsigned, unsigned factor) {
  return factor + 1 < shapeOf(getX()).size() ? std::optional<double>(0) : std::nullopt;
}

//===- rms_norm

TESSERA_INFER(RmsNormOp) {
  Value x = adaptor.getX();
  if (failed(checkRank(location, x)) ||
      failed(checkTypes(location, {adaptor.getGamma()}, lastType(x), "gamma")))
    return failure();
  types.append({plainType(x), tokensType(x)});
  return success();
}
LogicalResult RmsNormOp::verify() {
  if (!(getEps().convertToDouble() >= 0))
    return emitOpError("eps must not be negative");
  return success();
}
FactorRule RmsNormOp::getFactorRule() {
  Words w(getX());
  return lettersRule(*this, {w.all, w.last}, {w.all, w.tokens}, w.last);
}
std::optional<double> RmsNormOp::getNeutral(unsigned operand, unsigned factor) {
  return operand == 0 && factor + 1 == shapeOf(getX()).size() ? std::optional<double>(0) : std::nullopt;
}
FusionKind RmsNormOp::getFusionKind() { return FusionKind::Row; }
LogicalResult RmsNormOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  if (cotangents[1])
    return emitOpError("rstd is not differentiated");
  if (grad.wants(0))
    grad.add(0, RmsNormGradOp::create(grad, grad.loc(), cotangents[0], getX(), getRstd(), getGamma()));
  if (grad.wants(1)) {
    Value dgamma = RmsNormGradAffineOp::create(grad, grad.loc(), cotangents[0], getX(), getRstd());
    grad.add(1, castTo(grad, grad.loc(), dgamma, elementOf(getGamma())));
  }
  return success();
}
bool RmsNormOp::keepsWide(unsigned operand) { return operand != 0; }

TESSERA_INFER(RmsNormGradOp) {
  Value x = adaptor.getX();
  if (failed(checkRank(location, x)) || failed(checkTypes(location, {adaptor.getDy()}, plainType(x), "dy")) ||
      failed(checkTypes(location, {adaptor.getRstd()}, tokensType(x), "rstd")) ||
      failed(checkTypes(location, {adaptor.getGamma()}, lastType(x), "gamma")))
    return failure();
  types.push_back(plainType(x));
  return success();
}
FactorRule RmsNormGradOp::getFactorRule() {
  Words w(getX());
  return lettersRule(*this, {w.all, w.all, w.tokens, w.last}, {w.all}, w.last);
}
std::optional<double> RmsNormGradOp::getNeutral(unsigned, unsigned factor) {
  return factor + 1 == shapeOf(getX()).size() ? std::optional<double>(0) : std::nullopt;
}
FusionKind RmsNormGradOp::getFusionKind() { return FusionKind::Row; }

TESSERA_INFER(RmsNormGradAffineOp) {
  Value x = adaptor.getX();
  if (failed(checkRank(location, x)) || failed(checkTypes(location, {adaptor.getDy()}, plainType(x), "dy")) ||
      failed(checkTypes(location, {adaptor.getRstd()}, tokensType(x), "rstd")))
    return failure();
  types.push_back(wideLastType(x));
  return success();
}
FactorRule RmsNormGradAffineOp::getFactorRule() {
  Words w(getX());
  return lettersRule(*this, {w.all, w.all, w.tokens}, {w.last});
}
std::optional<double> RmsNormGradAffineOp::getNeutral(unsigned, unsigned factor) {
  return factor + 1 < shapeOf(getX()).size() ? std::optional<double>(0) : std::nullopt;
}

//===- rotary

TESSERA_INFER(RotaryOp) {
  SmallVector<Type> broadcast;
  if (failed(checkRank(location, adaptor.getX())) ||
      failed(inferElementwise(location, operands, elementOf(adaptor.getX()), broadcast)))
    return failure();
  if (shapeOf(adaptor.getX()).back() % 2 != 0)
    return inferError(location,
                      "the last dimension must be even, not " + Twine(shapeOf(adaptor.getX()).back()));
  if (shapeOf(adaptor.getX()) != cast<RankedTensorType>(broadcast[0]).getShape())
    return inferError(location, "cos and sin must broadcast to x");
  types.push_back(plainType(adaptor.getX()));
  return success();
}
LogicalResult RotaryOp::verify() { return success(); }
bool RotaryOp::keepsWide(unsigned operand) { return operand != 0; }
FactorRule RotaryOp::getFactorRule() {
  FactorRule rule = elementwiseRule(*this);
  rule.factors[rule.results[0].back()].kind = FactorKind::Unsplit;
  return rule;
}
FusionKind RotaryOp::getFusionKind() { return FusionKind::Alone; }
LogicalResult RotaryOp::expandLocal(LocalBuilder &builder, ValueRange operands,
                                    SmallVectorImpl<Value> &results) {
  return expandTrimmed(*this, builder, operands, results);
}
LogicalResult RotaryOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  if (grad.wants(1) || grad.wants(2))
    return emitOpError("cos and sin are not differentiated");
  grad.add(0, RotaryOp::create(grad, grad.loc(), cotangents[0], getCos(), getSin(), !getInverse()));
  return success();
}
