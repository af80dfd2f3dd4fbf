// The pass of the memory phase.
#ifndef TESSERA_PASSES_MEMORY_PASSES_H
#define TESSERA_PASSES_MEMORY_PASSES_H
#include "dialects/exec/Exec.h"
#include "mlir/Pass/Pass.h"
namespace tessera {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Memory/Passes.h.inc"
} // namespace tessera
#endif
