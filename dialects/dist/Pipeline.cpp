#include "dialects/dist/Pipeline.h"
#include "dialects/dist/Machine.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace tessera::dist {

static constexpr llvm::StringLiteral kPipelineAttr = "dist.pipeline", kChunkAttr = "dist.chunk",
                                     kWorkAttr = "dist.work", kMicroAttr = "dist.micro";

int64_t microbatches(ModuleOp module) {
  auto attr = module->getAttrOfType<IntegerAttr>(kMicroAttr);
  return attr ? attr.getInt() : 1;
}

void setMicrobatches(ModuleOp module, int64_t count) {
  module->setAttr(kMicroAttr, Builder(module.getContext()).getI64IntegerAttr(count));
}

/// What text says of microbatches and stages is used as sizes and places in lists.
LogicalResult DistDialect::verifyOperationAttribute(Operation *op, NamedAttribute attr) {
  auto isCount = [&](Attribute value, int64_t least, int64_t end) {
    auto number = dyn_cast<IntegerAttr>(value);
    return number && number.getType().isInteger(64) && number.getInt() >= least && number.getInt() < end;
  };
  if (attr.getName() == kMicroAttr && !isCount(attr.getValue(), 1, kMostMicrobatches + 1))
    return op->emitOpError("has ") << kMicroAttr << " = " << attr.getValue()
                                   << "; expected a number of microbatches, from 1 to 2^20";
  if (attr.getName() == kMachineAttr && !isa<MachineAttr>(attr.getValue()))
    return op->emitOpError("has ") << kMachineAttr << " = " << attr.getValue()
                                   << "; expected a machine, as in #dist.machine<flops = 1.3e11>";
  if (attr.getName() == kPipelineAttr) {
    std::optional<Pipeline> pipeline = isa<ModuleOp>(op) ? Pipeline::of(cast<ModuleOp>(op)) : std::nullopt;
    if (!pipeline || llvm::any_of(pipeline->stages, [&](int64_t stage) {
          return stage < 0 || stage >= int64_t(pipeline->stages.size());
        }))
      return op->emitOpError("has ") << kPipelineAttr << " = " << attr.getValue()
                                     << "; expected a module's axis, schedule, and each chunk's stage, of as "
                                        "many as there are chunks at most";
  }
  if (attr.getName() == kChunkAttr) {
    auto module = op->getParentOfType<ModuleOp>();
    std::optional<Pipeline> pipeline = module ? Pipeline::of(module) : std::nullopt;
    if (pipeline && !isCount(attr.getValue(), 0, pipeline->stages.size()))
      return op->emitOpError("has ") << kChunkAttr << " = " << attr.getValue()
                                     << "; the pipeline has chunks 0 to " << pipeline->stages.size() - 1;
  }
  return success();
}

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
