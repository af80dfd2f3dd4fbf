// Contractions with what follows them.
#include "dialects/nn/Epilogue.h"
#include "dialects/nn/ops/Contraction.h"

using namespace mlir;
using namespace tessera::nn;

namespace {
struct AddEpilogue : EpilogueOpInterface::ExternalModel<AddEpilogue, AddOp> {
  std::optional<Epilogue> getEpilogue(Operation *op, unsigned operand) const {
    Value product = op->getOperand(operand), other = op->getOperand(1 - operand);
    auto shape = shapeOf(product);
    bool isBias = !shape.empty() && shapeOf(op->getResult(0)) == shape && shapeOf(other) == shape.take_back();
    return isBias ? std::optional(Epilogue{.bias = other}) : std::nullopt;
  }
};

StringRef geluName(bool tanh) { return tanh ? "gelu_tanh" : "gelu_erf"; }
StringRef nameOf(ReluOp) { return "relu"; }
StringRef nameOf(SiluOp) { return "silu"; }
StringRef nameOf(GeluOp op) { return geluName(op.getTanh()); }
StringRef nameOf(SiluGradOp) { return "silu"; }
StringRef nameOf(GeluGradOp op) { return geluName(op.getTanh()); }

template <typename OpTy> struct Activated : EpilogueOpInterface::ExternalModel<Activated<OpTy>, OpTy> {
  std::optional<Epilogue> getEpilogue(Operation *op, unsigned) const {
    return Epilogue{.activation = nameOf(cast<OpTy>(op))};
  }
};

/// (x, dy) -> dx
template <typename OpTy> struct Derived : EpilogueOpInterface::ExternalModel<Derived<OpTy>, OpTy> {
  std::optional<Epilogue> getEpilogue(Operation *op, unsigned operand) const {
    if (operand != 1 || shapeOf(op->getOperand(0)) != shapeOf(op->getOperand(1)))
      return std::nullopt;
    return Epilogue{.activation = nameOf(cast<OpTy>(op)), .at = op->getOperand(0)};
  }
};
} // namespace

void tessera::nn::attachEpilogues(MLIRContext &context) {
  AddOp::attachInterface<AddEpilogue>(context);
  ReluOp::attachInterface<Activated<ReluOp>>(context);
  SiluOp::attachInterface<Activated<SiluOp>>(context);
  GeluOp::attachInterface<Activated<GeluOp>>(context);
  SiluGradOp::attachInterface<Derived<SiluGradOp>>(context);
  GeluGradOp::attachInterface<Derived<GeluGradOp>>(context);
}

LogicalResult FusedContractOp::verify() {
  SmallVector<int64_t> shape;
  if (failed(inferContraction(
          getLoc(), {getLhsLetters(), getRhsLetters(), getOutLetters(), getLhs(), getRhs()}, shape)))
    return failure();
  if (shapeOf(getResult()) != ArrayRef<int64_t>(shape))
    return emitOpError("computes ") << shapeText(shape) << ", not " << getResult().getType();
  if (!llvm::is_contained({"none", "gelu_tanh", "gelu_erf", "relu", "silu"}, getActivation()))
    return emitOpError("activation must be none, gelu_tanh, gelu_erf, relu or silu, not '")
           << getActivation() << "'";
  if (Value bias = getBias();
      bias && (shape.empty() || shapeOf(bias) != ArrayRef<int64_t>(shape).take_back()))
    return emitOpError("has a bias of ")
           << bias.getType() << ", expected a vector along the last letter of the result";
  if ((getAt() || getKept()) && (getActivation() == "none" || (getAt() && getKept())))
    return emitOpError(
        "keeps what an activation is applied to, or has it given: one of both, and with an activation");
  for (Value other : {getAt(), getKept()})
    if (other && shapeOf(other) != ArrayRef<int64_t>(shape))
      return emitOpError("has ") << other.getType()
                                 << " for what the activation is applied to, expected the result's shape";
  if (bool(getSums()) != getSumsOf().has_value())
    return emitOpError("says which operand to sum where there is a result for it, and only there");
  if (!getSums())
    return success();
  if (*getSumsOf() != "lhs" && *getSumsOf() != "rhs")
    return emitOpError("sums_of must be lhs or rhs, not '") << *getSumsOf() << "'";
  bool ofLhs = *getSumsOf() == "lhs";
  SmallVector<int64_t> left;
  for (auto [letter, size] :
       llvm::zip(ofLhs ? getLhsLetters() : getRhsLetters(), shapeOf(ofLhs ? getLhs() : getRhs())))
    if (getOutLetters().contains(letter))
      left.push_back(size);
  if (shapeOf(getSums()) != ArrayRef<int64_t>(left))
    return emitOpError("sums an operand to ") << shapeText(left) << ", not " << getSums().getType();
  return success();
}
