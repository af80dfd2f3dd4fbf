// The way of a model through the phases.
#ifndef TESSERA_LIB_DRIVER_COMPILE_H
#define TESSERA_LIB_DRIVER_COMPILE_H

#include "lib/Driver/Facts.h"
#include "lib/Driver/Options.h"
#include "lib/Driver/Streams.h"
#include "mlir/IR/OwningOpRef.h"
#include "passes/Memory/Tide.h"
#include "passes/Schedule/Placed.h"
#include "runtime/machine/machine_file.h"
#include "runtime/program/description.h"

namespace tessera {

/// The weights that all texts in a folder of dumps refer to.
inline constexpr llvm::StringLiteral kDumpedWeights = "weights.safetensors";

/// A context with every dialect that the phases use. Makes the targets known, too.
std::unique_ptr<mlir::MLIRContext> makeContext();

/// A model on its way: the module, its initial values, and what the phases left.
struct Compilation {
  CompileOptions options;
  mlir::MLIRContext &context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  WeightStore weights;
  std::vector<NodeTensors> nodes; // of an ONNX model
  std::string modelHash, planHash;
  std::optional<rt::MachineFile> machine;              // of --machine
  std::string description;                             // after Lower
  std::string allSizes;                                // of an executable with several, their descriptions
  std::optional<target::CompiledKernels> kernels;      // after Lower
  std::vector<std::pair<std::string, double>> seconds; // of each phase
  std::optional<Facts> facts;                          // after Propagate, when a report is wanted
  std::vector<StreamFact> streams;                     // after Schedule, likewise
  std::vector<MemoryTide> tides;                       // after Memory, likewise, of each program and stage
  std::shared_ptr<class OtherSizes> otherSizes;        // after Assign, when an executable is to be linked
  std::string kernelPrefix;                            // of an executable that has several programs' kernels
  bool wantsPlaced = false;                            // whether `placed` is to be filled
  std::vector<PlacedProgram> placed;                   // after Schedule, by when they were decided
  bool wantsLeast = false;                             // whether `leastDevice` is to be known
  bool onlyLeast = false;                              // ... and nothing else: no memory is planned
  int64_t leastDevice = 0; // bytes that the plan needs, where it has been refused for --device-memory

  Compilation(CompileOptions options, mlir::MLIRContext &context)
      : options(std::move(options)), context(context) {}
  /// Loads the model, unless `module` is set, and runs the phases from `next` to min(last, Lower), of which
  /// none is run twice. Problems are reported as diagnostics.
  mlir::LogicalResult run(Phase last);
  /// After Memory: what the programs are. Of text, in which anything may stand, as the next.
  mlir::FailureOr<rt::Description> describe();
  /// Writes that to the text `description`, and returns what the runtime reads of it, checked.
  mlir::FailureOr<rt::Description> writeDescription();
  const target::Target &target() const {
    return options.target ? *options.target : *target::targets().front();
  }
  /// Refuses a --machine that is not known to compute in the program's type, or that has no places for so
  /// many ranks.
  mlir::LogicalResult checkMachine(int64_t ranks);
  /// Whether the initial values of all variables are known.
  bool hasWeights();
  /// Threads a rank, once there is a mesh.
  int64_t threads() const;
  /// The same of so many ranks on this machine.
  int64_t threadsOf(int64_t ranks) const;

  /// The first phase that has not been run.
  Phase next = Phase::Import;

private:
  bool isAssigned = false; // here, not in the text
  mlir::LogicalResult load();
  mlir::LogicalResult loadText();
  mlir::LogicalResult memory();
  void setLimits();
  void setRecomputation();
  mlir::LogicalResult setMachine(Phase phase);
  mlir::LogicalResult passes(Phase phase);
  mlir::LogicalResult chooseComputeType();
  mlir::LogicalResult lower();
  /// As the compiler says it, not written and read back.
  mlir::FailureOr<rt::Description> describeUnread();
  mlir::InFlightDiagnostic emitUnreadable(const rt::Error &error);
  mlir::LogicalResult dump(Phase phase);
  mlir::LogicalResult dumpStages(llvm::StringRef path);
};

/// Writes the executable and the weights file beside it; both appear complete or not at all.
mlir::LogicalResult link(Compilation &compilation);

/// Writes the text of phase `options.to` to the output, and the weights beside it.
mlir::LogicalResult writeText(Compilation &compilation);

/// `tessera compile`: everything, with dumps and reports as the options say.
mlir::LogicalResult compile(const CompileOptions &options);

} // namespace tessera
#endif
