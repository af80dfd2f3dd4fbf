// The passes of the schedule phase.
#ifndef TESSERA_PASSES_SCHEDULE_PASSES_H
#define TESSERA_PASSES_SCHEDULE_PASSES_H
#include "dialects/dist/Dist.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
namespace tessera {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Schedule/Passes.h.inc"

/// The phase: what it runs and in which order.
void buildSchedulePipeline(mlir::OpPassManager &pm);
} // namespace tessera
#endif
