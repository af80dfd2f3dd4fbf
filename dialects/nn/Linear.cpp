#include "dialects/nn/Linear.h"
#include "dialects/nn/NN.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

bool tessera::nn::isLinearIn(Operation *op, unsigned operand) {
  return TypeSwitch<Operation *, bool>(op)
      .Case<ReshapeOp, TransposeOp, NegOp, ContractOp, MulOp>([](auto) { return true; })
      .Case<RotaryOp, DispatchOp, CombineOp, DropoutOp>([&](auto) { return operand == 0; })
      .Case([&](DivOp div) {
        return operand == 0 && isa<FloatType>(div.getType().getElementType());
      }) // integers' truncate
      .Case<ExpertDotOp>([&](auto) { return operand < 2; })
      .Case<ReduceOp>([](ReduceOp reduce) { return reduce.getKind() == "sum"; })
      .Default([](auto) { return false; });
}
