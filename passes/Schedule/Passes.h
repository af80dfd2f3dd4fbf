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

/// The name of the training program whose updates clip by the gradients' global norm.
inline constexpr llvm::StringLiteral kClippedProgram = "train_clipped";

/// The phase: what it runs and in which order. `threads` a rank, for the library's caps.
void buildSchedulePipeline(mlir::OpPassManager &pm, int64_t threads);
} // namespace tessera
#endif
