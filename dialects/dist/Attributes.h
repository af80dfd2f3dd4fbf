// The discardable attributes of the dist dialect.
#ifndef TESSERA_DIALECTS_DIST_ATTRIBUTES_H
#define TESSERA_DIALECTS_DIST_ATTRIBUTES_H

#include "dialects/Discardable.h"
#include "dialects/dist/Dist.h"

namespace tessera::dist {

//===--- What a plan says ------------------------------------------------------===//

/// The parallel algorithm of an operator, and where that was chosen: a line of the plan, or the recipe.
inline constexpr DiscardableAttr<PatternAttr> kPattern{"dist.pattern", OnOperation, "#dist.pattern<..>"};
inline constexpr DiscardableAttr<mlir::StringAttr> kOrigin{"dist.origin", OnOperation, "a string"};
/// On operators that a pattern expands itself, gradients included: that pattern and its axes.
inline constexpr DiscardableAttr<PatternAttr> kExpand{"dist.expand", OnOperation, "#dist.pattern<..>"};
/// How an input, or an operator's first result, is split: for each dimension the names of its axes.
inline constexpr DiscardableAttr<mlir::ArrayAttr> kSplit{
    "dist.split", OnOperation | OnArgument, "for each dimension a list of axes", [](mlir::Attribute value) {
      auto dims = llvm::dyn_cast<mlir::ArrayAttr>(value);
      return dims && llvm::all_of(dims, isListOfStrings);
    }};

/// ZeRO: its stage, the axes that storage is cut over, and whether the backward gathers again.
inline constexpr DiscardableAttr<mlir::IntegerAttr> kZero{
    "dist.zero", OnModule, "a stage, 1 to 3", [](mlir::Attribute value) {
      auto stage = llvm::dyn_cast<mlir::IntegerAttr>(value);
      return stage && stage.getType().isInteger(64) && stage.getInt() >= 1 && stage.getInt() <= 3;
    }};
inline constexpr DiscardableAttr<AxesAttr> kZeroAxes{"dist.zero_axes", OnModule, "#dist.axes<..>"};
inline constexpr DiscardableAttr<WhenAttr> kRegather{"dist.regather", OnModule, "#dist<when ..>"};
/// Whether the products of grids are computed panel by panel as their operands arrive.
inline constexpr DiscardableAttr<WhenAttr> kStream{"dist.stream", OnModule, "#dist<when ..>"};
/// What it says; `Auto` where there is none.
inline When whenOf(const DiscardableAttr<WhenAttr> &attr, mlir::ModuleOp module) {
  WhenAttr when = attr.of(module);
  return when ? when.getValue() : When::Auto;
}

/// The plan in the model's file, TOML.
inline constexpr DiscardableAttr<mlir::StringAttr> kFilePlan{"dist.file_plan", OnModule, "a string"};
/// The mesh that the file's annotations are for, [["axis", size], ...].
inline constexpr DiscardableAttr<mlir::ArrayAttr> kAnnotatedMesh{"dist.annotated_mesh", OnModule, "a list"};
/// For each annotated node {node, op, tensors = [{name, kind, position, shape, split}]}. `kind` is input (of
/// the graph), parameter, value or output; `position` its number among the node's outputs, or among its
/// inputs that are no parameters; `shape` its ONNX shape; `split` the axes of each dimension.
inline constexpr DiscardableAttr<mlir::ArrayAttr> kAnnotations{"dist.annotations", OnModule, "a list"};

/// Which machine the outermost module is compiled for; without it, the defaults.
inline constexpr DiscardableAttr<MachineAttr> kMachine{"dist.machine", OnModule,
                                                       "a machine, as in #dist.machine<flops = 1.3e11>"};

//===--- Layouts -----------------------------------------------------------------===//

/// Of inputs and outputs after partition: the whole shape, and how the rank's part lies in it.
inline constexpr DiscardableAttr<mlir::DenseI64ArrayAttr> kShape{"dist.shape", OnArgument | OnResult,
                                                                 "array<i64: ..>"};
inline constexpr DiscardableAttr<LayoutAttr> kLayout{"dist.layout", OnArgument | OnResult,
                                                     "#dist.layout<..>"};
/// On a reshard that gathers flat storage, and on what it becomes. Gathers for the two halves of a step are
/// kept apart, so that nothing is whole from one to the other, and are done for each microbatch.
inline constexpr DiscardableAttr<GatherForAttr> kGather{"dist.gather", OnOperation, "#dist<gather ..>"};
/// What the backward computes again from parameters alone.
inline constexpr DiscardableAttr<mlir::UnitAttr> kRecomputed{"dist.recomputed", OnOperation, "no value"};

//===--- Tiers of memory -----------------------------------------------------------===//

/// On a variable: the tier that it rests in between steps, where that is not the device. Every program reads
/// it there by `dist.read_copy`.
inline constexpr DiscardableAttr<TierAttr> kRests{
    "dist.rests", OnOperation, "a tier below the device, #dist.tier<host> or #dist.tier<nvme>",
    [](mlir::Attribute value) {
      auto tier = llvm::dyn_cast<TierAttr>(value);
      return tier && tier.getValue() != Tier::Device;
    }};
/// The most bytes that a rank may use of the device, of the host for what leaves the device, and of NVMe for
/// what the host has no room for.
bool isCapacity(mlir::Attribute value);
inline constexpr DiscardableAttr<mlir::IntegerAttr> kDeviceMemory{"dist.device_memory", OnModule,
                                                                  "a number of bytes", isCapacity},
    kHostMemory{"dist.host_memory", OnModule, "a number of bytes", isCapacity},
    kNvmeMemory{"dist.nvme_memory", OnModule, "a number of bytes", isCapacity};
/// The folder in which ranks keep what goes to NVMe, where nobody names another when the program is run.
inline constexpr DiscardableAttr<mlir::StringAttr> kNvmeFolder{"dist.nvme_folder", OnModule, "a path"};
/// What may leave the device: "optimizer", "parameters", "activations".
bool isOffload(mlir::Attribute value);
inline constexpr DiscardableAttr<mlir::ArrayAttr> kOffload{
    "dist.offload", OnModule, "a list of optimizer, parameters and activations", isOffload};
/// Where the plan wants values to be, entry by entry; of those that match a value the first counts (Place.h).
bool arePlaces(mlir::Attribute value);
inline constexpr DiscardableAttr<mlir::ArrayAttr> kPlace{
    "dist.place", OnModule,
    "a list of places, each with match and tier, such as {match = [\"*.mlp.*\"], tier = #dist.tier<host>}",
    arePlaces};
/// The tier that a variable rests in.
Tier restsIn(mlir::Operation *variable);

//===--- Recomputation ---------------------------------------------------------------===//

/// What the backward may make again instead of keeping it.
inline constexpr llvm::StringLiteral kRecomputations[] = {"none", "block", "auto"};
bool isRecomputation(mlir::Attribute value);
inline constexpr DiscardableAttr<mlir::StringAttr> kRecomputation{"dist.recomputation", OnModule,
                                                                  "none, block or auto", isRecomputation};
/// On an operator that is run again further down: its name, one of the function's. And on the operators that
/// run it again: that name.
inline constexpr DiscardableAttr<mlir::StringAttr> kRepeated{"dist.repeated", OnOperation, "a string"},
    kRecompute{"dist.recompute", OnOperation, "a string"};

//===--- Microbatches and stages (Pipeline.h) -------------------------------------===//

inline constexpr int64_t kMostMicrobatches = int64_t(1) << 20;
inline constexpr DiscardableAttr<mlir::IntegerAttr> kMicro{
    "dist.micro", OnModule, "a number of microbatches, from 1 to 2^20", [](mlir::Attribute value) {
      auto count = llvm::dyn_cast<mlir::IntegerAttr>(value);
      return count && count.getType().isInteger(64) && count.getInt() >= 1 &&
             count.getInt() <= kMostMicrobatches;
    }};
/// The other numbers of ranks that the batch may be shared by.
inline constexpr DiscardableAttr<ElasticAttr> kElastic{"dist.elastic", OnModule, "#dist.elastic<..>"};
inline constexpr DiscardableAttr<PipelineAttr> kPipeline{"dist.pipeline", OnModule, "#dist.pipeline<..>"};
/// Which part of the pipeline's work an operator is.
inline constexpr DiscardableAttr<mlir::IntegerAttr> kChunk{"dist.chunk", OnOperation, "a number"};
inline constexpr DiscardableAttr<PipelineWorkAttr> kWork{"dist.work", OnOperation, "#dist<work ..>"};
/// On an nn.acc: each stage adds its own terms, and the stages' sums are added; every stage has the result.
inline constexpr DiscardableAttr<mlir::UnitAttr> kOverStages{"dist.over_stages", OnOperation, "no value"};
/// On the collective that it becomes, which all stages do together, in the same order: its number among the
/// program's, so that two sums to which a stage adds nothing are not taken for one.
inline constexpr DiscardableAttr<mlir::IntegerAttr> kStageSum{"dist.stage_sum", OnOperation, "a number"};
/// On the function of a stage: its number, and the name of the program that it is one stage of.
inline constexpr DiscardableAttr<mlir::IntegerAttr> kStage{"dist.stage", OnFunction, "a number"};
inline constexpr DiscardableAttr<mlir::StringAttr> kProgram{"dist.program", OnFunction, "a string"};

/// The stage that a function is the program of, 0 where there are none; and the name of the whole program.
int64_t stageOf(mlir::Operation *func);
llvm::StringRef programName(mlir::FunctionOpInterface func);

} // namespace tessera::dist
#endif
