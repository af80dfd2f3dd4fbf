// Products: types, factor rule, gradients, plain lowering.
#include "dialects/nn/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace tessera::nn;

/// Letters of one word are letters, and differ.
static LogicalResult checkWord(std::optional<Location> location, StringRef word, StringRef what) {
  for (size_t i = 0; i < word.size(); ++i)
    if (!llvm::isAlpha(word[i]) || word.find(word[i], i + 1) != StringRef::npos)
      return inferError(location, Twine(what) + " '" + word + "' must be different letters");
  return success();
}

TESSERA_INFER(ContractOp) {
  StringRef lhs = adaptor.getLhsLetters(), rhs = adaptor.getRhsLetters(), out = adaptor.getOutLetters();
  ArrayRef<int64_t> lhsShape = shapeOf(adaptor.getLhs()), rhsShape = shapeOf(adaptor.getRhs());
  if (failed(checkWord(location, lhs, "lhs_letters")) || failed(checkWord(location, rhs, "rhs_letters")) ||
      failed(checkWord(location, out, "out_letters")))
    return failure();
  if (lhs.size() != lhsShape.size() || rhs.size() != rhsShape.size())
    return inferError(location, "'" + lhs + "' and '" + rhs +
                                    "' must name each dimension of operands of ranks " +
                                    Twine(lhsShape.size()) + " and " + Twine(rhsShape.size()));
  for (auto [i, c] : llvm::enumerate(lhs))
    if (size_t j = rhs.find(c); j != StringRef::npos && lhsShape[i] != rhsShape[j])
      return inferError(location, "letter '" + Twine(c) + "' has size " + Twine(lhsShape[i]) +
                                      " in the first operand and " + Twine(rhsShape[j]) + " in the second");
  SmallVector<int64_t> shape;
  for (char c : out) {
    if (size_t i = lhs.find(c); i != StringRef::npos)
      shape.push_back(lhsShape[i]);
    else if (size_t j = rhs.find(c); j != StringRef::npos)
      shape.push_back(rhsShape[j]);
    else
      return inferError(location, "letter '" + Twine(c) + "' of the result occurs in no operand");
  }
  if (elementOf(adaptor.getLhs()) != elementOf(adaptor.getRhs()))
    return inferError(location, "operands have different element types");
  if (Value bias = adaptor.getBias())
    if (shape.empty() || shapeOf(bias) != ArrayRef<int64_t>(shape).take_back())
      return inferError(location, "bias must be a vector along the last dimension of the result");
  types.push_back(RankedTensorType::get(shape, elementOf(adaptor.getLhs())));
  return success();
}

LogicalResult ContractOp::verify() {
  if (!llvm::is_contained({"none", "gelu_tanh", "gelu_erf", "relu", "silu"}, getActivation()))
    return emitOpError("activation must be none, gelu_tanh, gelu_erf, relu or silu, not '")
           << getActivation() << "'";
  return success();
}

FactorRule ContractOp::getFactorRule() {
  SmallVector<std::string> words = {getLhsLetters().str(), getRhsLetters().str()};
  if (getBias())
    words.push_back(getOutLetters().take_back().str());
  return lettersRule(*this, words, {getOutLetters().str()});
}

std::optional<double> ContractOp::getNeutral(unsigned operand, unsigned factor) {
  return operand < 2 && !getFactorRule().resultHas(0, factor) ? std::optional<double>(0) : std::nullopt;
}

LogicalResult ContractOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  if (getBias() || getActivation() != "none")
    return emitOpError("with a folded bias or activation is not differentiated");
  Value dy = cotangents[0];
  StringRef out = getOutLetters();
  auto give = [&](unsigned operand, StringRef mine, Value other, StringRef otherLetters, bool dyFirst) {
    // Letters that this operand alone has were summed: its cotangent is the same along them.
    std::string word, lone;
    for (char c : mine)
      (out.contains(c) || otherLetters.contains(c) ? word : lone).push_back(c);
    RankedTensorType type = plainType(getOperand(operand));
    Value value = dyFirst ? ContractOp::create(grad, grad.loc(), dy, other, Value(), out, otherLetters, word)
                          : ContractOp::create(grad, grad.loc(), other, dy, Value(), otherLetters, out, word);
    if (!lone.empty()) {
      SmallVector<int64_t> dims;
      for (auto [d, c] : llvm::enumerate(mine))
        if (word.find(c) != std::string::npos)
          dims.push_back(d);
      value = BroadcastOp::create(grad, grad.loc(), type, value, dims);
    }
    grad.add(operand, value);
  };
  if (grad.wants(0))
    give(0, getLhsLetters(), getRhs(), getRhsLetters(), true);
  if (grad.wants(1))
    give(1, getRhsLetters(), getLhs(), getLhsLetters(), false);
  return success();
}

FailureOr<SmallVector<Value>> ContractOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgEmitter e(builder, getLoc());
  RankedTensorType type = plainType(getResult());
  std::string out = getOutLetters().str();
  Value product =
      e.sum({{operands[0], getLhsLetters().str()}, {operands[1], getRhsLetters().str()}}, out,
            type.getShape(), type.getElementType(), [&](ArrayRef<Value> a) { return e.mul(a[0], a[1]); });
  if (getBias())
    product = AddOp::create(builder, getLoc(), product, operands[2]);
  StringRef activation = getActivation();
  if (activation == "relu")
    product = ReluOp::create(builder, getLoc(), product);
  else if (activation == "silu")
    product = SiluOp::create(builder, getLoc(), product);
  else if (activation != "none")
    product = GeluOp::create(builder, getLoc(), product, activation == "gelu_tanh");
  // What was folded in is lowered by the operators that it came from.
  SmallVector<LowerableOpInterface> folded;
  for (Value v = product; auto op = v.getDefiningOp<LowerableOpInterface>(); v = op->getOperand(0))
    folded.push_back(op);
  for (LowerableOpInterface op : llvm::reverse(folded)) {
    auto lowered = op.lowerToLinalg(builder, op->getOperands());
    if (failed(lowered))
      return failure();
    if (op->getResult(0) == product)
      product = (*lowered)[0];
    op->getResult(0).replaceAllUsesWith((*lowered)[0]);
  }
  for (LowerableOpInterface op : folded)
    op->erase();
  return SmallVector<Value>{product};
}
