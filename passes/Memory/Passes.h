// The pass of the memory phase.
#ifndef TESSERA_PASSES_MEMORY_PASSES_H
#define TESSERA_PASSES_MEMORY_PASSES_H
#include "dialects/exec/Exec.h"
#include "mlir/Pass/Pass.h"
#include "passes/Memory/Tide.h"
namespace tessera {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Memory/Passes.h.inc"
/// The same, which tells what each function holds over a step.
std::unique_ptr<mlir::Pass> createPlanMemory(PlanMemoryOptions options, TideObserver observer);
} // namespace tessera
#endif
