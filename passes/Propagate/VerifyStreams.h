// The part of the layouts' verifier that asks patterns.
#ifndef TESSERA_PASSES_PROPAGATE_VERIFYSTREAMS_H
#define TESSERA_PASSES_PROPAGATE_VERIFYSTREAMS_H

#include "dialects/dist/Dist.h"
#include "dialects/nn/NN.h"
#include "llvm/ADT/StringMap.h"

namespace tessera {

/// Checks an operator that its pattern expands, whose blocks move while it works: the factor rule does not
/// say what the layouts at its ends mean, the pattern's choice for the forward operator does. `forward`:
/// operators by `nn.id`.
llvm::LogicalResult verifyStreamed(nn::FactorOpInterface op, const dist::Mesh &mesh,
                                   const llvm::StringMap<mlir::Operation *> &forward);

} // namespace tessera
#endif
