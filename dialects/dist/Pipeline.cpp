#include "dialects/dist/Pipeline.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace tessera::dist {

int64_t microbatches(ModuleOp module) {
  IntegerAttr count = kMicro.of(module);
  return count ? count.getInt() : 1;
}

std::optional<rt::Shards> shardsOf(ModuleOp module) {
  ElasticAttr elastic = kElastic.of(module);
  auto meshes = module.getOps<MeshOp>();
  if (!elastic || meshes.empty())
    return std::nullopt;
  rt::Shards shards{
      {elastic.getSizes().begin(), elastic.getSizes().end()}, 1, elastic.getShards(), elastic.getScales()};
  for (const AxisRef &axis : (*meshes.begin()).getMesh().getMesh().declared())
    if (axis.name == elastic.getAxis())
      shards.size = axis.size;
  return shards;
}

int64_t microbatchTurns(ModuleOp module) {
  std::optional<rt::Shards> shards = shardsOf(module);
  return shards ? shards->turns() : microbatches(module);
}

void setMicrobatches(ModuleOp module, int64_t count) {
  kMicro.set(module, Builder(module.getContext()).getI64IntegerAttr(count));
}

bool readsMicro(Operation *op) {
  return llvm::any_of(op->getAttrs(), [](NamedAttribute attr) {
    auto axes = dyn_cast<AxesAttr>(attr.getValue());
    return axes && llvm::any_of(axes.getAxes(), [](const AxisRef &a) { return a.name == kMicroAxis; });
  });
}

std::optional<Pipeline> Pipeline::of(ModuleOp module) {
  PipelineAttr attr = kPipeline.of(module);
  if (!attr)
    return std::nullopt;
  Pipeline pipeline{attr.getAxis().str(), attr.getSchedule().str(), llvm::to_vector(attr.getStages())};
  pipeline.numStages = *llvm::max_element(pipeline.stages) + 1;
  return pipeline;
}

void Pipeline::setOn(ModuleOp module) const {
  kPipeline.set(module, PipelineAttr::get(module.getContext(), axis, schedule, stages));
}

std::optional<PipelinePart> PipelinePart::of(Operation *op) {
  IntegerAttr chunk = kChunk.of(op);
  PipelineWorkAttr work = kWork.of(op);
  if (!chunk || !work)
    return std::nullopt;
  return PipelinePart{chunk.getInt(), work.getValue()};
}

void PipelinePart::setOn(Operation *op) const {
  kChunk.set(op, Builder(op->getContext()).getI64IntegerAttr(chunk));
  kWork.set(op, PipelineWorkAttr::get(op->getContext(), work));
}

void copyPipelinePart(Operation *source, Operation *made) {
  if (auto part = PipelinePart::of(source))
    part->setOn(made);
}

} // namespace tessera::dist
