// Numbers that the host gives before a step.
#include "dialects/nn/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace tessera::nn;

FactorRule FromScalarOp::getFactorRule() { return lettersRule(*this, {""}, {""}); }
FusionKind FromScalarOp::getFusionKind() { return FusionKind::Elementwise; }

FailureOr<SmallVector<Value>> FromScalarOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  Value number = operands[0];
  auto type = loweredTensor(getResult());
  if (type.getElementType().isF32()) {
    number = arith::TruncIOp::create(builder, getLoc(), builder.getI32Type(), number);
    number = arith::BitcastOp::create(builder, getLoc(), builder.getF32Type(), number);
  }
  return SmallVector<Value>{tensor::SplatOp::create(builder, getLoc(), type, number)};
}
