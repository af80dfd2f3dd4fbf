// The schedule phase.
#include "passes/Lower/Passes.h"
#include "passes/Schedule/Passes.h"

using namespace mlir;
using namespace tessera;

void tessera::buildSchedulePipeline(OpPassManager &pm, int64_t threads) {
  // First: a pipeline's schedule says what runs when; all else moves within its steps.
  pm.addPass(createEmitPipeline());
  pm.addPass(createSplitClipping());
  pm.addPass(createMergePieces());
  WidenCallsOptions widen;
  widen.threads = threads;
  pm.addPass(createWidenCalls(widen));
  // Before kernels take what follows a product.
  FoldEpiloguesOptions fold;
  fold.threads = threads;
  pm.addPass(createFoldEpilogues(fold));
  // Kernels are what is ordered: values inside of them take no memory.
  FormKernelsOptions form;
  form.threads = threads;
  pm.addPass(createFormKernels(form));
  pm.addNestedPass<func::FuncOp>(createOrderForMemory());
  // In the order that stays: a panel is broadcast one product before its own.
  StreamContractionsOptions stream;
  stream.threads = threads;
  pm.addNestedPass<func::FuncOp>(createStreamContractions(stream));
  pm.addNestedPass<func::FuncOp>(createBucketCollectives());
  pm.addNestedPass<func::FuncOp>(createOverlapCollectives());
  pm.addPass(createVerifyPipeline());
}
