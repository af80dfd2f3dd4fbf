// A program of its own for clipping by norm.
#include "dialects/dist/Pipeline.h"
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
    for (auto train : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
      if (programOf(train) == "train" && failed(split(module, train)))
        return signalPassFailure();
  }

  // In a pipeline, what the function is one stage of.
  static StringRef programOf(func::FuncOp func) {
    auto program = func->getAttrOfType<StringAttr>(dist::kProgramAttr);
    return program ? program.getValue() : func.getName();
  }

  LogicalResult split(ModuleOp module, func::FuncOp train) {
    SmallVector<nn::UpdateOp> updates(train.getOps<nn::UpdateOp>());
    bool isStage = train->hasAttr(dist::kStageAttr);
    if (updates.empty() && !isStage)
      return success();
    // An update of a scaled loss looks at the norm in any case, to see whether the gradient overflowed.
    auto inputs = train.getArgumentTypes();
    bool scalesLoss = false;
    for (unsigned i = 0; i < inputs.size(); ++i)
      if (auto kind = train.getArgAttrOfType<StringAttr>(i, "nn.kind"); kind && kind.getValue() == "scalars")
        scalesLoss = cast<RankedTensorType>(inputs[i]).getDimSize(0) > 8;
    if (scalesLoss)
      return success();
    std::string name = (kClippedProgram + train.getName().drop_front(StringRef("train").size())).str();
    if (module.lookupSymbol(name))
      return module.emitError("has a function @") << name << " already";
    auto clipped = cast<func::FuncOp>(train->clone());
    clipped.setName(name);
    if (isStage)
      clipped->setAttr(dist::kProgramAttr, StringAttr::get(&getContext(), kClippedProgram));
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
