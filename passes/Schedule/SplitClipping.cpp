// A program of its own for clipping by norm.
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pipeline.h"
#include "dialects/nn/Attributes.h"
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
    for (FunctionOpInterface train : nn::programsOf(module, nn::ProgramRole::Train))
      if (failed(split(module, cast<func::FuncOp>(train.getOperation()))))
        return signalPassFailure();
  }

  LogicalResult split(ModuleOp module, func::FuncOp train) {
    SmallVector<nn::UpdateOp> updates(train.getOps<nn::UpdateOp>());
    bool isStage = dist::kStage.isOn(train);
    if (updates.empty() && !isStage)
      return success();
    // An update of a scaled loss looks at the norm in any case, to see whether the gradient overflowed.
    std::optional<unsigned> scalars = nn::findInput(train, nn::InputKind::Scalars);
    if (scalars && cast<RankedTensorType>(train.getArgumentTypes()[*scalars]).getDimSize(0) > 8)
      return success();
    auto role = nn::ProgramRole::TrainClipped;
    StringRef program = nn::stringifyProgramRole(role), ofStage = train.getName();
    ofStage.consume_front(dist::programName(train));
    std::string name = (program + ofStage).str();
    if (module.lookupSymbol(name))
      return module.emitError("has a function @") << name << " already";
    auto clipped = cast<func::FuncOp>(train->clone());
    clipped.setName(name);
    nn::kRole.set(clipped, nn::ProgramRoleAttr::get(&getContext(), role));
    if (isStage)
      dist::kProgram.set(clipped, StringAttr::get(&getContext(), program));
    module.insert(std::next(train->getIterator()), clipped);
    ++numPrograms;
    if (updates.empty())
      return success();
    // Without clipping an update does not look at the norm, and so need not wait for it.
    OpBuilder b(updates.front());
    auto type = cast<RankedTensorType>(updates.front().getNorm().getType());
    Value none = nn::ConstantOp::create(b, train.getLoc(), type, cast<ElementsAttr>(b.getZeroAttr(type)));
    for (nn::UpdateOp update : updates)
      update.getNormMutable().assign(none);
    return success();
  }
};

} // namespace
