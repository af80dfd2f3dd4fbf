// The passes of the partition phase.
#ifndef TESSERA_PASSES_PARTITION_PASSES_H
#define TESSERA_PASSES_PARTITION_PASSES_H
#include "dialects/dist/Dist.h"
#include "dialects/nn/NN.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Pass/Pass.h"
namespace tessera {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Partition/Passes.h.inc"
} // namespace tessera
#endif
