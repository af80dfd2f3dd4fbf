// The pass that makes blocks' activations again, whatever the memory.
#include "dialects/dist/Attributes.h"
#include "passes/Kernels/Passes.h"
#include "passes/Memory/Storage.h"
#include "passes/Schedule/Passes.h"
#include "passes/Schedule/Repeat.h"

namespace tessera {
#define GEN_PASS_DEF_RECOMPUTE
#include "passes/Schedule/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

namespace {

struct RecomputePass : tessera::impl::RecomputeBase<RecomputePass> {
  using RecomputeBase::RecomputeBase;

  LogicalResult initialize(MLIRContext *context) override {
    library = nn::findLibrary(target, UnknownLoc::get(context));
    return success(library);
  }

  int64_t most(func::FuncOp func) { return Storage(func, kernels, *library, threads).fullestMoment().second; }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    StringAttr what = dist::kRecomputation.of(module);
    if (!what || what != "block")
      return;
    kernels = module.lookupSymbol<ModuleOp>(kKernelsModule);
    for (auto func : module.getOps<func::FuncOp>()) {
      // Operators that need what would have to stay for them, such as gathered parameters, may cost more than
      // they save: the set with the lowest peak, the cheaper of two that are nearly alike.
      constexpr double kLower = 0.99;
      int64_t least = most(func);
      Repeats repeats;
      OwningOpRef<func::FuncOp> best;
      forEachRepetition(func, threads, [&](const Repeats &tried) {
        int64_t peak = most(func);
        if (double(peak) < kLower * double(least))
          least = peak, repeats = tried, best = func.clone();
        return false;
      });
      if (!best)
        continue;
      func.getBody().takeBody(best->getBody());
      numRepeated += repeats.operators;
      emitRemark(UnknownLoc::get(&getContext()))
          << "program '" << dist::programName(func) << "': " << describe(repeats);
    }
  }

  const nn::Library *library = nullptr;
  ModuleOp kernels;
};

} // namespace
