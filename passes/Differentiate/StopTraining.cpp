// What training alone does (dropout) leaves the inference program.
#include "dialects/nn/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/PatternMatch.h"
#include "passes/Differentiate/Passes.h"

using namespace mlir;

namespace tessera {
#define GEN_PASS_DEF_STOPTRAINING
#include "passes/Differentiate/Passes.h.inc"

namespace {
struct StopTraining : impl::StopTrainingBase<StopTraining> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    IRRewriter rewriter(&getContext());
    if (auto infer = module.lookupSymbol<func::FuncOp>("infer"))
      infer.walk([&](nn::TrainingOpInterface op) {
        rewriter.setInsertionPoint(op);
        op.stopTraining(rewriter);
        ++numStopped;
      });
    for (auto func : module.getOps<func::FuncOp>())
      for (unsigned i = func.getNumArguments(); i-- > 0;)
        if (auto kind = func.getArgAttrOfType<StringAttr>(i, "nn.kind");
            kind && kind.getValue() == "random" && func.getArgument(i).use_empty())
          if (failed(func.eraseArgument(i)))
            return signalPassFailure();
  }
};
} // namespace
} // namespace tessera
