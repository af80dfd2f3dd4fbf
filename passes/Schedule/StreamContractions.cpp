// Products of gathered operands, and products whose result is reduce-scattered, by panels.
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

  void stream(Block &block, StringRef when) {
    auto products = llvm::to_vector(block.getOps<nn::PanelOpInterface>());
    llvm::SmallPtrSet<Operation *, 16> gone;
    Hazards hazards(block);
    for (nn::PanelOpInterface product : products) {
      if (gone.contains(product))
        continue;
      std::optional<PanelLoop> loop = PanelLoop::chosen(product, when, threads, hazards);
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
    auto mode = module->getAttrOfType<StringAttr>("dist.stream");
    StringRef when = mode ? mode.getValue() : "auto";
    if (!llvm::is_contained({"never", "always", "auto"}, when)) {
      module.emitError("has \"dist.stream\" = \"") << when << "\"; expected never, always or auto";
      return signalPassFailure();
    }
    getOperation().walk([&](Block *block) { stream(*block, when); });
  }
};

} // namespace
