// The order of a program by its peak with collectives beside other work.
#include "mlir/Pass/PassManager.h"
#include "passes/Kernels/Passes.h"
#include "passes/Memory/Storage.h"
#include "passes/Schedule/Passes.h"

namespace tessera {
#define GEN_PASS_DEF_CHOOSEORDER
#include "passes/Schedule/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

namespace {

struct ChooseOrderPass : tessera::impl::ChooseOrderBase<ChooseOrderPass> {
  using ChooseOrderBase::ChooseOrderBase;

  LogicalResult initialize(MLIRContext *context) override {
    library = nn::findLibrary(target, UnknownLoc::get(context));
    return success(library);
  }

  LogicalResult schedule(bool other) {
    OpPassManager pm(func::FuncOp::getOperationName());
    OrderForMemoryOptions order;
    order.target = target;
    order.threads = threads;
    order.other = other;
    pm.addPass(createOrderForMemory(order));
    // In the order that stays: a panel is broadcast one product before its own.
    StreamContractionsOptions stream;
    stream.target = target;
    stream.threads = threads;
    pm.addPass(createStreamContractions(stream));
    pm.addPass(createBucketCollectives());
    HoistCollectivesOptions hoist;
    hoist.target = target;
    hoist.threads = threads;
    pm.addPass(createHoistCollectives(hoist));
    pm.addPass(createOverlapCollectives());
    return runPipeline(pm, getOperation());
  }

  int64_t peak() {
    auto kernels = getOperation()->getParentOfType<ModuleOp>().lookupSymbol<ModuleOp>(kKernelsModule);
    return Storage(getOperation(), kernels, *library, threads).fullestMoment().second;
  }

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    bool isLarge = int64_t(func.getBody().front().getOperations().size()) > largest;
    OwningOpRef<func::FuncOp> given = isLarge ? func::FuncOp() : func.clone();
    if (failed(schedule(/*other=*/false)))
      return signalPassFailure();
    if (isLarge ||
        !func.walk([](dist::CollectiveStartOp) { return WalkResult::interrupt(); }).wasInterrupted())
      return;
    const int64_t firstPeak = peak();
    OwningOpRef<func::FuncOp> first = func.clone();
    func.getBody().takeBody(given->getBody());
    if (failed(schedule(/*other=*/true)))
      return signalPassFailure();
    // For less than a thousandth no time is given away: the orders differ in what collectives hide behind.
    if (double(peak()) < 0.999 * double(firstPeak))
      ++numOther;
    else
      func.getBody().takeBody(first->getBody());
  }

  const nn::Library *library = nullptr;
};

} // namespace
