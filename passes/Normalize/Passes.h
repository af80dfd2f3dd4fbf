// The pass of the normalize phase, and the one that chooses the type to compute in.
#ifndef TESSERA_PASSES_NORMALIZE_PASSES_H
#define TESSERA_PASSES_NORMALIZE_PASSES_H
#include "dialects/nn/NN.h"
#include "mlir/Pass/Pass.h"
namespace tessera {
/// On the module: the type it computes in, "bf16" or "f16"; f32 where there is none.
inline constexpr llvm::StringLiteral kComputeTypeAttr = "nn.compute_type";
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Normalize/Passes.h.inc"
} // namespace tessera
#endif
