// A program of its own for clipping by norm.
#include "passes/Schedule/Passes.h"

namespace tessera {
#define GEN_PASS_DEF_SPLITCLIPPING
#include "passes/Schedule/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

namespace {

struct SplitClippingPass : tessera::impl::SplitClippingBase<SplitClippingPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto train = module.lookupSymbol<func::FuncOp>("train");
    if (!train)
      return;
    SmallVector<nn::UpdateOp> updates(train.getOps<nn::UpdateOp>());
    if (updates.empty())
      return;
    if (module.lookupSymbol(kClippedProgram)) {
      module.emitError("has a function @") << kClippedProgram << " already";
      return signalPassFailure();
    }
    auto clipped = cast<func::FuncOp>(train->clone());
    clipped.setName(kClippedProgram);
    module.insert(std::next(train->getIterator()), clipped);
    // Without clipping an update does not look at the norm, and so need not wait for it.
    OpBuilder b(updates.front());
    auto type = cast<RankedTensorType>(updates.front().getNorm().getType());
    Value none = nn::ConstantOp::create(b, train.getLoc(), type, cast<ElementsAttr>(b.getZeroAttr(type)));
    for (nn::UpdateOp update : updates)
      update.getNormMutable().assign(none);
    ++numPrograms;
  }
};

} // namespace
