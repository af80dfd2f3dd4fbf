// The pass of the assign phase.
#ifndef TESSERA_PASSES_ASSIGN_PASSES_H
#define TESSERA_PASSES_ASSIGN_PASSES_H
#include "dialects/dist/Dist.h"
#include "dialects/nn/NN.h"
#include "mlir/Pass/Pass.h"
namespace tessera {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Assign/Passes.h.inc"
} // namespace tessera
#endif
