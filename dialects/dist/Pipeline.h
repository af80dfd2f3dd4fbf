// How a program is cut into pipeline stages: the module attribute, and the attributes of operators that say
// which part they belong to.
#ifndef TESSERA_DIALECTS_DIST_PIPELINE_H
#define TESSERA_DIALECTS_DIST_PIPELINE_H

#include "dialects/dist/Attributes.h"
#include "runtime/core/shards.h"

namespace tessera::dist {

/// The number of microbatches that training cuts the batch into: the module's attribute `dist.micro`, or 1.
int64_t microbatches(mlir::ModuleOp module);
/// How the batch is shared where other numbers of ranks can share it, too.
std::optional<rt::Shards> shardsOf(mlir::ModuleOp module);
/// The number of these that a step is of: all, but for a batch that grows with the ranks.
int64_t microbatchTurns(mlir::ModuleOp module);
void setMicrobatches(mlir::ModuleOp module, int64_t count);
/// Whether the operator itself depends on which microbatch runs: an attribute of it names the axis "micro".
bool readsMicro(mlir::Operation *op);

/// The module's pipeline, in the attribute `dist.pipeline`: chunk c of the model is on stage `stages[c]`,
/// which is a coordinate on mesh axis `axis`.
struct Pipeline {
  std::string axis, schedule;
  llvm::SmallVector<int64_t> stages;
  int64_t numStages = 1;

  /// None when the program is not pipelined.
  static std::optional<Pipeline> of(mlir::ModuleOp module);
  void setOn(mlir::ModuleOp module) const;
  /// The axis as an AxisRef of its whole size.
  AxisRef axisRef() const { return {axis, 1, numStages}; }
};

/// The chunk and the work of an operator: the attributes `dist.chunk` and `dist.work`. An operator without
/// them depends on parameters alone or on inputs alone, and every stage that needs it computes it; or it
/// follows a sum over stages, which every stage has.
struct PipelinePart {
  int64_t chunk = 0;
  PipelineWork work = PipelineWork::Forward;

  static std::optional<PipelinePart> of(mlir::Operation *op);
  void setOn(mlir::Operation *op) const;
  bool operator==(const PipelinePart &) const = default;
};
/// Makes `made` part of what `source` is part of.
void copyPipelinePart(mlir::Operation *source, mlir::Operation *made);

} // namespace tessera::dist
#endif
