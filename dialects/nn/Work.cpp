// See Work.h.
#include "dialects/nn/Work.h"
#include "dialects/nn/Attributes.h"
#include "dialects/nn/OpSupport.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace tessera::nn;

// As kernels fuse: rows, or every element by itself.
static WorkClass classOf(Operation *op) {
  auto lowerable = dyn_cast<LowerableOpInterface>(op);
  return lowerable && lowerable.getFusionKind() == FusionKind::Row ? WorkClass::Row : WorkClass::Stream;
}

// Rates are f32's unless they are of the half types.
static tessera::rt::DType rateTypeOf(Type element) {
  return element.isBF16()  ? tessera::rt::DType::BF16
         : element.isF16() ? tessera::rt::DType::F16
                           : tessera::rt::DType::F32;
}

Work tessera::nn::workOf(Operation *op) {
  Work work;
  if (auto says = dyn_cast<WorkOpInterface>(op)) {
    work.kind = says.getWorkClass();
    work.flops = says.getFlops();
    work.shape = says.getProductShape();
    work.functions = says.getFunctions();
  } else if (StringAttr name = kWorkClass.of(op)) {
    work.kind = tessera::rt::parseWorkClass(name.getValue()).value_or(WorkClass::Stream);
  } else {
    work.kind = classOf(op);
  }
  if (FloatAttr functions = kFunctions.of(op))
    work.functions = functions.getValueAsDouble();
  if (op->getNumOperands() > 0)
    work.type = rateTypeOf(getElementTypeOrSelf(op->getOperand(0)));
  auto count = [](TypeRange types) {
    double bytes = 0;
    for (Type type : types)
      bytes += bytesOf(type);
    return bytes;
  };
  const std::optional<double> read = bytesReadBy(op);
  work.bytes = (read ? *read : count(op->getOperandTypes())) + count(op->getResultTypes());
  return work;
}

std::optional<double> tessera::nn::bytesReadBy(Operation *op) {
  if (auto says = dyn_cast<WorkOpInterface>(op))
    return says.getBytesRead();
  if (FloatAttr bytes = kBytesRead.of(op))
    return bytes.getValueAsDouble();
  return std::nullopt;
}

double tessera::nn::bytesOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return 0;
  const unsigned element = (tensor.getElementTypeBitWidth() + 7) / 8;
  return double(tensor.getNumElements()) * double(element);
}
