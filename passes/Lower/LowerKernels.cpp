// The kernels' bodies, operator by operator, to linalg.
#include "dialects/nn/NN.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Lower/Passes.h"

namespace tessera {
#define GEN_PASS_DEF_LOWERKERNELS
#include "passes/Lower/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

namespace {

struct LowerKernelsPass : tessera::impl::LowerKernelsBase<LowerKernelsPass> {
  void runOnOperation() override {
    auto kernels = getOperation().lookupSymbol<ModuleOp>(kKernelsModule);
    if (!kernels)
      return;
    for (auto func : kernels.getOps<func::FuncOp>())
      for (Operation &op : llvm::make_early_inc_range(func.getBody().front())) {
        auto lowerable = dyn_cast<nn::LowerableOpInterface>(op);
        if (!lowerable)
          continue;
        OpBuilder b(&op);
        FailureOr<SmallVector<Value>> results = lowerable.lowerToLinalg(b, op.getOperands());
        if (failed(results)) {
          op.emitOpError("cannot be lowered to a kernel");
          return signalPassFailure();
        }
        op.replaceAllUsesWith(*results);
        op.erase();
      }
  }
};

} // namespace
