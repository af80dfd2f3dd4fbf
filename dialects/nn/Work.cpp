// See Work.h.
#include "dialects/nn/Work.h"
#include "dialects/nn/OpSupport.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace tessera::nn;

StringRef tessera::nn::workClassName(WorkClass kind) {
  switch (kind) {
  case WorkClass::Stream:
    return "stream";
  case WorkClass::Row:
    return "row";
  case WorkClass::Gather:
    return "gather";
  case WorkClass::Product:
    return "product";
  case WorkClass::Attention:
    return "attention";
  case WorkClass::Update:
    return "update";
  }
}

// As kernels fuse: rows, or every element by itself.
static WorkClass classOf(Operation *op) {
  auto lowerable = dyn_cast<LowerableOpInterface>(op);
  return lowerable && lowerable.getFusionKind() == FusionKind::Row ? WorkClass::Row : WorkClass::Stream;
}

Work tessera::nn::workOf(Operation *op) {
  Work work;
  if (auto says = dyn_cast<WorkOpInterface>(op)) {
    work.kind = says.getWorkClass();
    work.flops = says.getFlops();
  } else {
    work.kind = classOf(op);
  }
  if (op->getNumOperands() > 0)
    work.half = isHalf(getElementTypeOrSelf(op->getOperand(0)));
  auto count = [&](TypeRange types) {
    for (Type type : types)
      if (auto tensor = dyn_cast<RankedTensorType>(type))
        work.bytes += double(tensor.getNumElements()) * double((tensor.getElementTypeBitWidth() + 7) / 8);
  };
  count(op->getOperandTypes());
  count(op->getResultTypes());
  return work;
}
