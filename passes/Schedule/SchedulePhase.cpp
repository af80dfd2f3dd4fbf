// The schedule phase: which passes it runs, in which order.
#include "dialects/nn/Attributes.h"
#include "passes/Kernels/Passes.h"
#include "passes/Schedule/Passes.h"

using namespace mlir;
using namespace tessera;

namespace {

// Kernels are scheduled before memory is thought about: what may be in place and how much scratch they take
// is the target's to say.
struct DescribeKernelsPass : PassWrapper<DescribeKernelsPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(DescribeKernelsPass)
  explicit DescribeKernelsPass(std::function<LogicalResult(ModuleOp)> describe)
      : describe(std::move(describe)) {}

  StringRef getArgument() const override { return "tessera-describe-kernels"; }
  void runOnOperation() override {
    if (failed(describe(getOperation())))
      signalPassFailure();
  }

  std::function<LogicalResult(ModuleOp)> describe;
};

struct KeepTrainingPass : PassWrapper<KeepTrainingPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(KeepTrainingPass)
  StringRef getArgument() const override { return "tessera-keep-training"; }
  void runOnOperation() override {
    auto training = nn::programsOf(getOperation(), nn::ProgramRole::Train);
    for (auto func : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      if (!training.empty() && !llvm::is_contained(training, cast<FunctionOpInterface>(func.getOperation())))
        func.erase();
  }
};

} // namespace

std::unique_ptr<Pass> tessera::createKeepTraining() { return std::make_unique<KeepTrainingPass>(); }

void tessera::buildSchedulePipeline(OpPassManager &pm, const ScheduleOptions &options) {
  // First: a pipeline's schedule says what runs when; all else moves within its steps.
  EmitPipelineOptions emit;
  emit.turns = options.turns;
  pm.addPass(createEmitPipeline(emit));
  pm.addPass(createSplitClipping());
  if (options.onlyTraining)
    pm.addPass(createKeepTraining());
  pm.addPass(createMergePieces());
  WidenCallsOptions widen;
  widen.target = options.target;
  pm.addPass(createWidenCalls(widen));
  // Before kernels take what follows a product.
  FoldEpiloguesOptions fold;
  fold.target = options.target;
  fold.threads = options.threads;
  pm.addPass(createFoldEpilogues(fold));
  AlignCallsOptions align;
  align.target = options.target;
  pm.addPass(createAlignCalls(align));
  // Kernels are what is ordered: values inside of them take no memory.
  FormKernelsOptions form;
  form.target = options.target;
  pm.addPass(createFormKernels(form));
  pm.addPass(createLowerKernels());
  pm.addPass(std::make_unique<DescribeKernelsPass>(options.describeKernels));
  PeelLoopsOptions peel;
  peel.target = options.target;
  peel.threads = options.threads;
  pm.addPass(createPeelLoops(peel));
  ChooseOrderOptions order;
  order.target = options.target;
  order.threads = options.threads;
  if (options.onlyTraining)
    order.largest = 0;
  pm.addNestedPass<func::FuncOp>(createChooseOrder(order));
  // Of kernels and calls as they are: fused otherwise they would round otherwise.
  RecomputeOptions recompute;
  recompute.target = options.target;
  recompute.threads = options.threads;
  pm.addPass(createRecompute(recompute, options.repeated));
  ChooseTiersOptions tiers;
  tiers.target = options.target;
  tiers.threads = options.threads;
  tiers.policy = options.tierPolicy;
  tiers.advises = options.advises;
  tiers.any = options.anyPlacement;
  pm.addPass(createChooseTiers(tiers, options.placed, options.refused, options.onlyLeast));
  ChooseNvmeOptions nvme;
  nvme.target = options.target;
  nvme.threads = options.threads;
  pm.addPass(createChooseNvme(nvme, options.placedOnNvme));
  pm.addPass(createVerifyPipeline());
}
