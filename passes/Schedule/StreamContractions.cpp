// Products of gathered operands, and products whose result is reduce-scattered, by panels.
#include "dialects/dist/Attributes.h"
#include "dialects/exec/Exec.h"
#include "passes/Schedule/PanelLoop.h"
#include "passes/Schedule/Passes.h"

namespace tessera {
#define GEN_PASS_DEF_STREAMCONTRACTIONS
#include "passes/Schedule/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

namespace {

struct StreamContractionsPass : tessera::impl::StreamContractionsBase<StreamContractionsPass> {
  using StreamContractionsBase::StreamContractionsBase;

  LogicalResult initialize(MLIRContext *context) override {
    library = nn::findLibrary(target, UnknownLoc::get(context));
    return success(library);
  }

  void stream(Block &block, dist::When when) {
    auto products = llvm::to_vector(block.getOps<nn::PanelOpInterface>());
    llvm::SmallPtrSet<Operation *, 16> gone;
    Hazards hazards(block);
    for (nn::PanelOpInterface product : products) {
      if (gone.contains(product))
        continue;
      std::optional<PanelLoop> loop = PanelLoop::chosen(product, when, *library, threads, hazards);
      if (!loop)
        continue;
      for (PanelLoop::Product part : loop->products)
        gone.insert(part.op);
      numProducts += loop->products.size();
      loop->emit();
    }
  }

  void runOnOperation() override {
    auto module = getOperation()->getParentOfType<ModuleOp>();
    dist::When when = dist::whenOf(dist::kStream, module);
    getOperation().walk([&](Block *block) { stream(*block, when); });
  }

  const nn::Library *library = nullptr;
};

} // namespace
