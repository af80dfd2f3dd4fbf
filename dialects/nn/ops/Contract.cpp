// Products: types, factor rule, gradients, plain lowering.
#include "dialects/nn/Lowering.h"
#include "dialects/nn/ops/Contraction.h"
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

LogicalResult tessera::nn::inferContraction(std::optional<Location> location, const Contraction &c,
                                            SmallVectorImpl<int64_t> &shape) {
  ArrayRef<int64_t> lhsShape = shapeOf(c.a), rhsShape = shapeOf(c.b);
  if (failed(checkWord(location, c.lhs, "lhs_letters")) ||
      failed(checkWord(location, c.rhs, "rhs_letters")) || failed(checkWord(location, c.out, "out_letters")))
    return failure();
  if (c.lhs.size() != lhsShape.size() || c.rhs.size() != rhsShape.size())
    return inferError(location, "'" + c.lhs + "' and '" + c.rhs +
                                    "' must name each dimension of operands of ranks " +
                                    Twine(lhsShape.size()) + " and " + Twine(rhsShape.size()));
  for (auto [i, letter] : llvm::enumerate(c.lhs))
    if (size_t j = c.rhs.find(letter); j != StringRef::npos && lhsShape[i] != rhsShape[j])
      return inferError(location, "letter '" + Twine(letter) + "' has size " + Twine(lhsShape[i]) +
                                      " in the first operand and " + Twine(rhsShape[j]) + " in the second");
  for (char letter : c.out) {
    if (size_t i = c.lhs.find(letter); i != StringRef::npos)
      shape.push_back(lhsShape[i]);
    else if (size_t j = c.rhs.find(letter); j != StringRef::npos)
      shape.push_back(rhsShape[j]);
    else
      return inferError(location, "letter '" + Twine(letter) + "' of the result occurs in no operand");
  }
  if (elementOf(c.a) != elementOf(c.b))
    return inferError(location, "operands have different element types");
  return success();
}

TESSERA_INFER(ContractOp) {
  SmallVector<int64_t> shape;
  if (failed(inferContraction(location,
                              {adaptor.getLhsLetters(), adaptor.getRhsLetters(), adaptor.getOutLetters(),
                               adaptor.getLhs(), adaptor.getRhs()},
                              shape)))
    return failure();
  types.push_back(RankedTensorType::get(shape, elementOf(adaptor.getLhs())));
  return success();
}

FactorRule ContractOp::getFactorRule() {
  return lettersRule(*this, {getLhsLetters().str(), getRhsLetters().str()}, {getOutLetters().str()});
}

std::optional<double> ContractOp::getNeutral(unsigned operand, unsigned factor) {
  return !getFactorRule().resultHas(0, factor) ? std::optional<double>(0) : std::nullopt;
}

LogicalResult ContractOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  Value dy = cotangents[0];
  StringRef out = getOutLetters();
  auto give = [&](unsigned operand, StringRef mine, Value other, StringRef otherLetters, bool dyFirst) {
    // Letters that this operand alone has were summed: its cotangent is the same along them.
    std::string word, lone;
    for (char c : mine)
      (out.contains(c) || otherLetters.contains(c) ? word : lone).push_back(c);
    RankedTensorType type = plainType(getOperand(operand));
    Value value = dyFirst ? ContractOp::create(grad, grad.loc(), dy, other, out, otherLetters, word)
                          : ContractOp::create(grad, grad.loc(), other, dy, otherLetters, out, word);
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
  return SmallVector<Value>{
      e.sum({{operands[0], getLhsLetters().str()}, {operands[1], getRhsLetters().str()}}, out,
            type.getShape(), type.getElementType(), [&](ArrayRef<Value> a) { return e.mul(a[0], a[1]); })};
}
