// The pass of the normalize phase, and the one that chooses the type to compute in.
#ifndef TESSERA_PASSES_NORMALIZE_PASSES_H
#define TESSERA_PASSES_NORMALIZE_PASSES_H
#include "dialects/nn/NN.h"
#include "mlir/Pass/Pass.h"
namespace tessera {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Normalize/Passes.h.inc"
} // namespace tessera
#endif
