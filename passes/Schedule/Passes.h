// The passes of the schedule phase.
#ifndef TESSERA_PASSES_SCHEDULE_PASSES_H
#define TESSERA_PASSES_SCHEDULE_PASSES_H
#include "dialects/dist/Dist.h"
#include "dialects/nn/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
namespace tessera {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Schedule/Passes.h.inc"

struct PlacedProgram; // Placed.h
using PlacedObserver = std::function<void(PlacedProgram)>;
/// Is told the least bytes of the device that a plan needs, where it does not fit below the cap.
using LeastObserver = std::function<void(int64_t bytes)>;
/// The pass with somebody to tell what it decides, or what it would need; `onlyLeast`: it decides nothing,
/// tells that and fails.
std::unique_ptr<mlir::Pass> createChooseTiers(const ChooseTiersOptions &options, PlacedObserver placed,
                                              LeastObserver refused, bool onlyLeast);
/// Is told of a program's function the names of some of its values.
using NamesObserver = std::function<void(llvm::StringRef program, llvm::ArrayRef<std::string> values)>;
/// Of those that go to NVMe.
std::unique_ptr<mlir::Pass> createChooseNvme(const ChooseNvmeOptions &options, NamesObserver placed);
/// Of those that are made again.
std::unique_ptr<mlir::Pass> createRecompute(const RecomputeOptions &options, NamesObserver repeated);

/// What the phase is told of the target.
struct ScheduleOptions {
  std::string target = "cpu";         // whose library is asked: see dialects/nn/Library.h
  int64_t threads = 1;                // a rank, for the time of products and the library's workspaces
  std::string tierPolicy = "planned"; // of `tessera-choose-tiers`
  bool onlyTraining = false;          // no inference and clipping, where there is training; one order alone
  bool advises = true;                // of `tessera-choose-tiers`
  bool anyPlacement = false;          // likewise: `any`
  int64_t turns = 0;                  // of a pipeline: so many microbatches alone; 0: all
  /// Gives each lowered kernel in the module `exec.extent`, `exec.grain`, `exec.workspace` and
  /// `exec.in_place`.
  std::function<llvm::LogicalResult(mlir::ModuleOp)> describeKernels;
  /// Is told what was decided of each program's memory, if set.
  PlacedObserver placed;
  LeastObserver refused;
  bool onlyLeast = false; // of `tessera-choose-tiers`: what `refused` is told, and no more
  NamesObserver placedOnNvme, repeated;
};

/// The phase: what it runs and in which order.
void buildSchedulePipeline(mlir::OpPassManager &pm, const ScheduleOptions &options);

/// Drops all programs but those that train, which recipes are compared by; where none does, it keeps all.
std::unique_ptr<mlir::Pass> createKeepTraining();
} // namespace tessera
#endif
