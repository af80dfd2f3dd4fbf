// Values that a rank has of a variable before anything has been sent or computed with it.
#ifndef TESSERA_PASSES_SCHEDULE_STORED_H
#define TESSERA_PASSES_SCHEDULE_STORED_H

#include "dialects/dist/Dist.h"
#include "dialects/nn/NN.h"

namespace tessera {

/// The variable that a value is, as it is stored or converted; null for others.
nn::ReadOp storedRead(mlir::Value value);

/// Whether the collective gathers a variable, or a pack of variables, that nothing before it in the block has
/// written: it may start anywhere before.
bool gathersStored(dist::CollectiveOp op);

/// Moves what makes `value`, and is not there yet, before `first`, an operator of the same block.
void hoist(mlir::Value value, mlir::Operation *first);

} // namespace tessera
#endif
