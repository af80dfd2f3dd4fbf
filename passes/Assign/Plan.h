// The plan: which mesh, how inputs are split, which pattern each operator follows. Read from TOML, made by
// the recipe, printed back.
#ifndef TESSERA_PASSES_ASSIGN_PLAN_H
#define TESSERA_PASSES_ASSIGN_PLAN_H

#include "mlir/IR/BuiltinOps.h"
#include "passes/Pipeline/PipelineSchedule.h"
#include "runtime/core/size.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

/// Where an entry stands in the file it was read from; line 0: the plan's `origin`.
struct PlanPosition {
  int line = 0, column = 0;
};

struct InputRule {
  std::string match;
  int64_t dim = 0;
  std::vector<std::string> axes;
  PlanPosition at;
  std::string note = ""; // printed above it, not read
};

struct OpRule {
  std::string match, pattern;
  std::vector<std::string> axes;
  PlanPosition at;
  std::string note = ""; // printed above it, not read

  /// Eight digits that stand for what it decides.
  std::string digest() const;
};

struct ValueRule {
  std::string match;
  std::map<int64_t, std::vector<std::string>> split;
  PlanPosition at;
  std::string note = ""; // printed above it, not read
};

/// How the model is cut along one mesh axis, and in which order its parts run.
struct PipelineRule {
  std::string axis;
  std::string schedule = pipeline::kDefaultSchedule;
  /// One list of globs a chunk; none: balanced by cost.
  std::vector<std::vector<std::string>> stages;
  std::vector<PlanPosition> stagesAt;
  PlanPosition at;
};

/// ZeRO: which training state is stored in pieces, over which axes.
struct ZeroRule {
  int64_t stage = 0; // 1: optimizer state, 2: gradients too, 3: parameters too
  std::vector<std::string> axes;
  PlanPosition at;
  std::string note = ""; // printed above it, not read
};

/// [memory]: what a rank may have of each tier, and what may leave the device.
struct MemoryRule {
  std::optional<int64_t> device, host;             // bytes
  std::optional<rt::FolderSize> nvme;              // below the host
  std::optional<std::vector<std::string>> offload; // of optimizer, parameters, activations
  std::string recompute;                           // none, block or auto; empty: auto with a cap
  PlanPosition deviceAt, hostAt, nvmeAt, offloadAt, recomputeAt;
};

/// [[place]]: in which tier values are, and with `moves` exactly when they leave it; or where parameters are
/// updated; or what is made again (dialects/dist/Place.h).
struct PlaceRule {
  std::vector<std::string> match;
  std::string what, program, tier, update; // either of the last two, or `recompute`
  std::vector<std::array<int64_t, 4>> moves;
  bool recompute = false;
  PlanPosition at;
};

/// [elastic]: the numbers of ranks along an axis that may share the batch, which is cut into `shards`, and
/// whether the batch grows with them.
struct ElasticRule {
  std::string axis = "data";
  std::vector<int64_t> sizes;
  int64_t shards = 0; // 0: as many as the largest size has microbatches
  bool scales = false;
  PlanPosition at;
};

/// [planner]: what --auto said of the plan when it found it. Decides nothing.
struct PlannerNote {
  std::string recipe;
  std::vector<std::string> alternatives; // the next best, a sentence each
  std::vector<std::string> entries;      // digests of the [[op]] that it wrote: what was edited has another

  /// Whether --auto wrote the entry as it is.
  bool wrote(const OpRule &rule) const { return llvm::is_contained(entries, rule.digest()); }
};

struct Plan {
  std::vector<std::pair<std::string, int64_t>> mesh;
  std::vector<InputRule> inputs;
  std::vector<OpRule> ops; // the first match wins
  std::vector<ValueRule> values;
  std::optional<PipelineRule> pipeline;
  ZeroRule zero;
  std::optional<ElasticRule> elastic;
  int64_t microbatches = 1;
  MemoryRule memory;
  std::vector<PlaceRule> places; // the first match counts
  std::string compute;           // the type to compute in; empty: not said
  std::optional<PlannerNote> planner;
  /// Axes that entries name and [mesh] has not, and where: a recipe may make them.
  std::vector<std::pair<std::string, PlanPosition>> axesOfRecipe;
  std::string file;
  std::string origin = "recipe"; // of entries without a position

  /// Reads a plan file. What is wrong is reported as `error: FILE:LINE:COLUMN: ...` with the nearest valid
  /// name.
  static mlir::FailureOr<Plan> read(llvm::StringRef path, llvm::raw_ostream &errors);
  /// Reads text; `name` stands for the file in messages.
  static mlir::FailureOr<Plan> parse(llvm::StringRef text, llvm::StringRef name, llvm::raw_ostream &errors);
  /// The plan as TOML, ready to edit and to give back.
  void print(llvm::raw_ostream &os) const;
  /// Adds `axis` to the mesh, as the fastest varying or as the slowest. False when it is there with another
  /// size.
  bool addAxis(llvm::StringRef axis, int64_t size, bool slowest = false);

private:
  void printMemory(llvm::raw_ostream &os) const;
};

struct AssignOptions;
/// Reports an axis that the plan's entries name and its mesh, with the recipe's axes, has not.
mlir::LogicalResult checkAxes(mlir::ModuleOp module, const Plan &plan);
/// What the recipe's part of the options adds to a plan: --dp splits dimension 0 of the inputs that share it
/// with most others;
/// --tp pairs products of a block as column and row, and splits the vocabulary, or lays all products over a
/// grid; --pp cuts the model along axis "pipe".
mlir::LogicalResult applyRecipe(mlir::ModuleOp module, const AssignOptions &options, Plan &plan);
/// The plan that the options stand for: the plan file's entries, then the recipe's; where they say nothing of
/// the mesh, the plan that the model carries. Reports what is wrong.
mlir::FailureOr<Plan> makePlan(mlir::ModuleOp module, const AssignOptions &options);

/// Where a plan or the options say by how many ranks the batch may be shared: makes the plan that of the size
/// asked for, with as many microbatches as that leaves to each rank. Reports sizes that cannot be.
mlir::LogicalResult chooseSize(mlir::ModuleOp module, const AssignOptions &options, Plan &plan);

/// What the options say of memory, added to what the plan says. Reports where both say something else.
mlir::LogicalResult addMemory(mlir::ModuleOp module, const AssignOptions &options, Plan &plan);
/// Writes what a plan says of memory on the module. Reports tiers that nobody gave.
mlir::LogicalResult placeInTiers(mlir::ModuleOp module, const Plan &plan);
/// What "none", "auto" or a list with commas lets leave the device; nothing for any other text.
std::optional<std::vector<std::string>> parseOffload(llvm::StringRef text);

/// The type to compute in that the plan says, the file's or the one that the model carries; empty where none
/// does. Reports what is wrong with a plan file.
mlir::FailureOr<std::string> plannedComputeType(mlir::ModuleOp module, const AssignOptions &options);
/// Whether `name` is keep or scale: what becomes of the batch where the number of ranks changes.
bool isResizeRule(llvm::StringRef name);
/// Whether `name` is f32, bf16 or f16.
bool isComputeType(llvm::StringRef name);

} // namespace tessera
#endif
