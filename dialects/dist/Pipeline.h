// How a program is cut into pipeline stages: the module attribute, and the attributes of operators that say
// which part they belong to.
#ifndef TESSERA_DIALECTS_DIST_PIPELINE_H
#define TESSERA_DIALECTS_DIST_PIPELINE_H

#include "dialects/dist/Dist.h"

namespace tessera::dist {

/// The number of microbatches that training cuts the batch into: the module's attribute `dist.micro`, or 1.
int64_t microbatches(mlir::ModuleOp module);
inline constexpr int64_t kMostMicrobatches = int64_t(1) << 20;
void setMicrobatches(mlir::ModuleOp module, int64_t count);

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

/// What an operator does for its chunk.
enum class PipelineWork { Forward, Backward, Weight, Update };
llvm::StringRef workName(PipelineWork work);

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

/// On an `nn.acc`: each stage adds its own terms, and the stages' sums are added; every stage has the result.
/// Then on the collective that it becomes, which all stages do together, in the same order: its number among
/// the program's, so that two sums to which a stage adds nothing are not taken for one.
inline constexpr llvm::StringLiteral kOverStagesAttr = "dist.over_stages";
/// On the function of a stage: its number.
inline constexpr llvm::StringLiteral kStageAttr = "dist.stage";
/// On the function of a stage: the name of the program that it is one stage of.
inline constexpr llvm::StringLiteral kProgramAttr = "dist.program";

} // namespace tessera::dist
#endif
