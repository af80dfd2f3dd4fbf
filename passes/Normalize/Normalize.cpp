// The normalize pass: rounds of patterns, then what is no longer used.
#include "dialects/nn/Attributes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Normalize/Passes.h"
#include "passes/Normalize/Patterns.h"
#include "passes/Normalize/RemarkListener.h"

using namespace mlir;

namespace tessera {
#define GEN_PASS_DEF_NORMALIZE
#include "passes/Normalize/Passes.h.inc"

namespace {

/// Buffers that no program reads. Parameters stay: they are saved whether used or not.
void eraseUnreadBuffers(ModuleOp module) {
  llvm::DenseSet<StringAttr> used;
  module.walk([&](Operation *op) {
    if (auto symbol = op->getAttrOfType<FlatSymbolRefAttr>("variable"))
      used.insert(symbol.getAttr());
  });
  for (auto variable : llvm::make_early_inc_range(module.getOps<nn::VariableOp>()))
    if (variable.getRole() == "buffer" && !used.contains(variable.getSymNameAttr()))
      variable.erase();
}

/// Inputs that a table is looked up by: the values they may have, for the runtime to check.
void markRanges(ModuleOp module) {
  Builder b(module.getContext());
  module.walk([&](nn::GatherOp gather) {
    Value ids = gather.getIds();
    while (auto view = ids.getDefiningOp<nn::ReshapeOp>())
      ids = view.getOperand();
    auto arg = dyn_cast<BlockArgument>(ids);
    auto func = arg ? dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp()) : func::FuncOp();
    if (!func || nn::kRange.ofArgument(func, arg.getArgNumber()))
      return;
    nn::kRange.setArgument(
        func, arg.getArgNumber(),
        b.getDenseI64ArrayAttr({0, cast<RankedTensorType>(gather.getTable().getType()).getDimSize(0)}));
  });
}

struct Normalize : impl::NormalizeBase<Normalize> {
  using NormalizeBase::NormalizeBase;

  void runOnOperation() override {
    OpPassManager before(ModuleOp::getOperationName()), after(ModuleOp::getOperationName());
    before.addPass(createCSEPass());
    after.addPass(createCanonicalizerPass());
    after.addPass(createCSEPass());
    if (failed(runPipeline(before, getOperation())))
      return signalPassFailure();
    using namespace normalize;
    // First, before dimensions of tokens move: experts.
    raiseExperts(getOperation(), numExperts);
    if (capacityFactor > 0 && failed(limitExperts(getOperation(), capacityFactor, numLimited)))
      return signalPassFailure();
    bool done = round([&](RewritePatternSet &patterns) {
                  addSimplifyPatterns(patterns, numTrivial);
                  addOrderShapePatterns(patterns, numReshapes);
                  addSinkReshapePatterns(patterns, numReshapes);
                  addGeluPatterns(patterns, numGelu);
                  addSiluPatterns(patterns, numSilu);
                  addLayerNormPatterns(patterns, numLayerNorm);
                  addRmsNormPatterns(patterns, numRmsNorm);
                  addRotaryPatterns(patterns, numRotary);
                }) &&
                round([&](RewritePatternSet &patterns) {
                  addAttentionPatterns(patterns, numAttention);
                  addAttentionBiasPatterns(patterns, numMasks);
                  addOrderShapePatterns(patterns, numReshapes);
                  addSinkReshapePatterns(patterns, numReshapes);
                  addSimplifyPatterns(patterns, numTrivial);
                }) &&
                // Last: no other pattern looks for the form that this leaves.
                round([&](RewritePatternSet &patterns) { addUnstackPatterns(patterns, numReshapes); });
    if (!done || failed(runPipeline(after, getOperation())))
      return signalPassFailure();
    eraseUnreadBuffers(getOperation());
    markRanges(getOperation());
  }

private:
  bool round(llvm::function_ref<void(RewritePatternSet &)> fill) {
    RewritePatternSet patterns(&getContext());
    fill(patterns);
    GreedyRewriteConfig config;
    config.setMaxIterations(64);
    normalize::RemarkListener listener;
    if (getContext().getRemarkEngine())
      config.setListener(&listener);
    if (succeeded(applyPatternsGreedily(getOperation(), std::move(patterns), config)))
      return true;
    getOperation().emitError() << "normalisation has no end";
    return false;
  }
};

} // namespace
} // namespace tessera
