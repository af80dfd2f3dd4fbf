// The optimizer step of one parameter, as PyTorch defines it.
#include "dialects/nn/LibraryCalls.h"
#include "dialects/nn/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include <limits>

using namespace mlir;
using namespace tessera::nn;

/// How many state tensors an optimizer has; none for an unknown one.
static std::optional<unsigned> stateCount(StringRef kind) {
  if (kind == "adamw" || kind == "adam")
    return 2;
  if (kind == "sgd_momentum")
    return 1;
  return kind == "sgd" ? std::optional<unsigned>(0) : std::nullopt;
}

/// Whether the gradient is that of a scaled loss: then the ninth scalar is the scale, and a norm that is not
/// finite means that the gradient overflowed and nothing changes.
static bool scalesLoss(UpdateOp op) { return shapeOf(op.getScalars()) == ArrayRef<int64_t>{9}; }

TESSERA_INFER(UpdateOp) {
  RankedTensorType type = plainType(adaptor.getParameter());
  auto differs = [&](Value value) { return shapeOf(value) != type.getShape(); };
  if (differs(adaptor.getGradient()) || llvm::any_of(adaptor.getState(), differs))
    return inferError(location,
                      "gradient and state must have the parameter's shape " + shapeText(type.getShape()));
  types.push_back(type);
  for (Value state : adaptor.getState())
    types.push_back(plainType(state));
  return success();
}
LogicalResult UpdateOp::verify() {
  auto count = stateCount(getKind());
  if (!count)
    return emitOpError("kind must be adamw, adam, sgd or sgd_momentum, not '") << getKind() << "'";
  if (getState().size() != *count)
    return emitOpError() << getKind() << " has " << *count << " state tensors, not " << getState().size();
  if ((shapeOf(getScalars()) != ArrayRef<int64_t>{8} && !scalesLoss(*this)) ||
      shapeOf(getDecay()).size() != 1 || !shapeOf(getNorm()).empty())
    return emitOpError(
        "scalars must be a vector of 8, or 9 with the scale of the loss, decay a vector and norm a scalar");
  if (int64_t(getIndex()) < 0 || int64_t(getIndex()) >= shapeOf(getDecay())[0])
    return emitOpError("index ") << int64_t(getIndex()) << " is not a place in decay, of size "
                                 << shapeOf(getDecay())[0];
  return success();
}
FactorRule UpdateOp::getFactorRule() {
  std::string all = freshLetters(shapeOf(getParameter()).size());
  SmallVector<std::string> words(2 + getState().size(), all), results(1 + getState().size(), all);
  std::string more = freshLetters(all.size() + 2);
  std::string x(1, more[all.size()]), y(1, more[all.size() + 1]);
  words.append({"", x, y});
  return lettersRule(*this, words, results, "", x + y);
}

FailureOr<SmallVector<Value>> UpdateOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  Location loc = getLoc();
  LinalgEmitter e(builder, loc);
  unsigned states = getState().size();
  Type element = elementOf(operands[0]);
  Value norm = operands[2 + states], scalars = operands[3 + states], decays = operands[4 + states];
  auto read = [&](Value from, ArrayRef<Value> where) -> Value {
    Value x = tensor::ExtractOp::create(builder, loc, from, where);
    unsigned bits = x.getType().getIntOrFloatBitWidth(), wanted = element.getIntOrFloatBitWidth();
    if (bits == wanted)
      return x;
    return bits < wanted ? Value(arith::ExtFOp::create(builder, loc, element, x))
                         : Value(arith::TruncFOp::create(builder, loc, element, x));
  };
  auto scalar = [&](int64_t i) { return read(scalars, {e.index(i)}); };
  auto sqrt = [&](Value x) -> Value { return math::SqrtOp::create(builder, loc, x); };
  Value lr = scalar(0), beta1 = scalar(1), beta2 = scalar(2), eps = scalar(3), correction1 = scalar(4),
        correction2 = scalar(5), momentum = scalar(6), clip = scalar(7),
        decay = read(decays, {e.index(getIndex())}), one = e.constant(element, 1), root = sqrt(correction2);
  // Clipping: min(1, clip / (norm + 1e-6)), where asked for.
  Value ratio = arith::MinimumFOp::create(builder, loc, one,
                                          e.div(clip, e.add(read(norm, {}), e.constant(element, 1e-6))));
  Value clips = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OGT, clip, e.constant(element, 0));
  Value factor = arith::SelectOp::create(builder, loc, clips, ratio, one), isFinite;
  if (scalesLoss(*this)) {
    factor = e.div(factor, scalar(8));
    // Not so for NaN.
    isFinite = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OLT, read(norm, {}),
                                     e.constant(element, std::numeric_limits<double>::infinity()));
  }

  // The formula of runtime/device/update_step.h, operation by operation: both give the same bits.
  Value keep = e.sub(one, e.mul(lr, decay)), fresh1 = e.sub(one, beta1), fresh2 = e.sub(one, beta2),
        size = e.mul(e.div(lr, correction1), root), epsilon = e.mul(eps, root);
  std::string all = freshLetters(shapeOf(operands[0]).size());
  SmallVector<Lettered> inputs, inits;
  for (unsigned i = 0; i < 2 + states; ++i)
    inputs.push_back({operands[i], all});
  for (Value result : getResults())
    inits.push_back({e.empty(shapeOf(result), elementOf(result)), all});
  auto updated = [&](ArrayRef<Value> a) -> SmallVector<Value> {
    Value p = a[0], g = e.mul(a[1], factor);
    if (getKind() == "adamw")
      p = e.mul(p, keep);
    else
      g = e.add(g, e.mul(decay, p));
    if (states == 0)
      return {e.sub(p, e.mul(lr, g))};
    if (states == 1) {
      Value velocity = e.add(e.mul(momentum, a[2]), g);
      return {e.sub(p, e.mul(lr, velocity)), velocity};
    }
    Value m = e.add(a[2], e.mul(e.sub(g, a[2]), fresh1));
    Value v = e.add(e.mul(a[3], beta2), e.mul(e.mul(fresh2, g), g));
    return {e.sub(p, e.div(e.mul(size, m), e.add(sqrt(v), epsilon))), m, v};
  };
  return e.generic(inputs, inits, [&](ArrayRef<Value> a) {
    SmallVector<Value> results = updated(a);
    for (auto [i, result] : llvm::enumerate(results))
      if (isFinite)
        result = arith::SelectOp::create(builder, loc, isFinite, result, a[i == 0 ? 0 : i + 1]);
    return results;
  });
}

std::optional<LibraryCall> UpdateOp::getLibraryCall() {
  if (!isAllF32(*this))
    return std::nullopt;
  CallAttrs attrs(getContext());
  int64_t count = plainType(getParameter()).getNumElements();
  attrs.set("count", count);
  attrs.set("decay", int64_t(getIndex()));
  attrs.setFlag("grad_norm", true);
  if (scalesLoss(*this))
    attrs.setFlag("loss_scale", true);
  int states = getState().size();
  SmallVector<int> buffers = {3 + states, 4 + states, 2 + states}, inPlace = {0};
  for (int i = 0; i < 2 + states; ++i)
    buffers.push_back(i);
  for (int i = 0; i < states; ++i)
    inPlace.push_back(2 + i);
  LibraryCall call = attrs.call(getKind(), buffers);
  call.inPlace = inPlace;
  return call;
}
double UpdateOp::getFlops() { return 12.0 * plainType(getParameter()).getNumElements(); }
