// The passes of the propagate phase.
#ifndef TESSERA_PASSES_PROPAGATE_PASSES_H
#define TESSERA_PASSES_PROPAGATE_PASSES_H
#include "mlir/Pass/Pass.h"
namespace tessera {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Propagate/Passes.h.inc"
} // namespace tessera
#endif
