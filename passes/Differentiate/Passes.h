// The pass of the differentiate phase.
#ifndef TESSERA_PASSES_DIFFERENTIATE_PASSES_H
#define TESSERA_PASSES_DIFFERENTIATE_PASSES_H
#include "dialects/nn/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
namespace tessera {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Differentiate/Passes.h.inc"
} // namespace tessera
#endif
