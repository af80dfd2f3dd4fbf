// Values that a rank has of a variable before anything has been sent or computed with it, and values that
// become one.
#ifndef TESSERA_PASSES_SCHEDULE_STORED_H
#define TESSERA_PASSES_SCHEDULE_STORED_H

#include "passes/Memory/Hazards.h"

namespace tessera {

/// The variable that a value is, as it is stored or converted; null for others.
nn::ReadOp storedRead(mlir::Value value);

/// Whether the value, a view or a part of it becomes a variable.
bool becomesVariable(mlir::Value value);

/// Whether the collective gathers a variable, or a pack of variables, that nothing before it in the block has
/// written: it may start anywhere before.
bool gathersStored(dist::CollectiveOp op, const Hazards &hazards);

/// Moves what makes `value`, and is not there yet, before `first`, an operator of the same block.
void hoist(mlir::Value value, mlir::Operation *first);

/// Moves `op` before another operator of its block. Operation::moveBefore would have the whole block numbered
/// again at the next isBeforeInBlock, this only the operator.
void moveWithinBlock(mlir::Operation *op, mlir::Operation *before);

} // namespace tessera
#endif
