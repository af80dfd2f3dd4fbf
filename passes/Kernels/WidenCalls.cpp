// Calls of the library in f32, where it has no function for bf16 or f16.
#include "dialects/nn/Library.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Kernels/Passes.h"

namespace tessera {
#define GEN_PASS_DEF_WIDENCALLS
#include "passes/Kernels/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

namespace {

// Arithmetic on each element from which on a call is worth two passes more over its operands: products,
// convolutions and attention are beyond it, losses and sums are not, and a kernel computes these as well.
constexpr double kMuchWork = 16;

RankedTensorType halfTensor(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && (type.getElementType().isBF16() || type.getElementType().isF16()) ? type
                                                                                   : RankedTensorType();
}

struct WidenCallsPass : tessera::impl::WidenCallsBase<WidenCallsPass> {
  using WidenCallsBase::WidenCallsBase;

  LogicalResult initialize(MLIRContext *context) override {
    library = nn::findLibrary(target, UnknownLoc::get(context));
    return success(library);
  }

  void runOnOperation() override {
    SmallVector<nn::LibraryOpInterface> found;
    getOperation().walk([&](nn::LibraryOpInterface op) {
      bool isHalf = llvm::any_of(op->getOperands(), halfTensor) || llvm::any_of(op->getResults(), halfTensor);
      if (isHalf && !library->computes(op))
        found.push_back(op);
    });
    for (nn::LibraryOpInterface op : found)
      widen(op);
  }

  void widen(nn::LibraryOpInterface op) {
    OpBuilder b(op);
    Type f32 = b.getF32Type();
    IRMapping map;
    SmallVector<Operation *> made;
    for (Value operand : op->getOperands())
      if (halfTensor(operand) && !map.contains(operand)) {
        made.push_back(nn::CastOp::create(b, op.getLoc(), operand, f32));
        map.map(operand, made.back()->getResult(0));
      }
    Operation *wide = b.clone(*op, map);
    double elements = 0;
    for (Value result : wide->getResults())
      if (RankedTensorType type = halfTensor(result))
        result.setType(type.clone(f32));
    for (ValueRange values : {ValueRange(wide->getOperands()), ValueRange(wide->getResults())})
      for (Value value : values)
        if (auto type = dyn_cast<RankedTensorType>(value.getType()))
          elements += double(type.getNumElements());
    std::optional<nn::LibraryCall> call = cast<nn::LibraryOpInterface>(wide).getLibraryCall();
    if (!call || !library->has(*call) || nn::workOf(wide).flops < kMuchWork * elements) {
      wide->erase();
      for (Operation *cast : made)
        cast->erase();
      return;
    }
    for (auto [from, to] : llvm::zip(op->getResults(), wide->getResults())) {
      Value result = to;
      if (RankedTensorType type = halfTensor(from))
        result = nn::CastOp::create(b, op.getLoc(), to, type.getElementType());
      from.replaceAllUsesWith(result);
    }
    op->erase();
    ++numCalls;
  }

  const nn::Library *library = nullptr;
};

} // namespace
