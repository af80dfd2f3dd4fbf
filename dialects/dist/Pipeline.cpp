#include "dialects/dist/Pipeline.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace tessera::dist {

static constexpr llvm::StringLiteral kPipelineAttr = "dist.pipeline", kChunkAttr = "dist.chunk",
                                     kWorkAttr = "dist.work";

std::optional<Pipeline> Pipeline::of(ModuleOp module) {
  auto attr = module->getAttrOfType<DictionaryAttr>(kPipelineAttr);
  if (!attr)
    return std::nullopt;
  auto axis = attr.getAs<StringAttr>("axis"), schedule = attr.getAs<StringAttr>("schedule");
  auto stages = attr.getAs<DenseI64ArrayAttr>("stages");
  if (!axis || !schedule || !stages || stages.empty())
    return std::nullopt;
  Pipeline pipeline{axis.str(), schedule.str(), llvm::to_vector(stages.asArrayRef())};
  pipeline.numStages = *llvm::max_element(pipeline.stages) + 1;
  return pipeline;
}

void Pipeline::setOn(ModuleOp module) const {
  Builder b(module.getContext());
  module->setAttr(kPipelineAttr,
                  b.getDictionaryAttr({b.getNamedAttr("axis", b.getStringAttr(axis)),
                                       b.getNamedAttr("schedule", b.getStringAttr(schedule)),
                                       b.getNamedAttr("stages", b.getDenseI64ArrayAttr(stages))}));
}

static constexpr llvm::StringLiteral kWorkNames[] = {"forward", "backward", "weight", "update"};

llvm::StringRef workName(PipelineWork work) { return kWorkNames[size_t(work)]; }

std::optional<PipelinePart> PipelinePart::of(Operation *op) {
  auto chunk = op->getAttrOfType<IntegerAttr>(kChunkAttr);
  auto work = op->getAttrOfType<StringAttr>(kWorkAttr);
  if (!chunk || !work)
    return std::nullopt;
  for (auto [i, name] : llvm::enumerate(kWorkNames))
    if (work.getValue() == name)
      return PipelinePart{chunk.getInt(), PipelineWork(i)};
  return std::nullopt;
}

void PipelinePart::setOn(Operation *op) const {
  Builder b(op->getContext());
  op->setAttr(kChunkAttr, b.getI64IntegerAttr(chunk));
  op->setAttr(kWorkAttr, b.getStringAttr(workName(work)));
}

void copyPipelinePart(Operation *source, Operation *made) {
  if (auto part = PipelinePart::of(source))
    part->setOn(made);
}

} // namespace tessera::dist
