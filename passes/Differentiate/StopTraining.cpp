// What training alone does (dropout) leaves the inference program.
#include "dialects/nn/Attributes.h"
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
    for (auto func : module.getOps<func::FuncOp>()) {
      if (!nn::isTraining(func))
        func.walk([&](nn::TrainingOpInterface op) {
          rewriter.setInsertionPoint(op);
          op.stopTraining(rewriter);
          ++numStopped;
        });
      if (auto key = nn::findInput(func, nn::InputKind::Random); key && func.getArgument(*key).use_empty())
        if (failed(func.eraseArgument(*key)))
          return signalPassFailure();
    }
  }
};
} // namespace
} // namespace tessera
