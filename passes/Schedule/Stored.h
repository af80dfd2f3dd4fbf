// Values that a rank has of a variable before anything has been sent or computed with it.
#ifndef TESSERA_PASSES_SCHEDULE_STORED_H
#define TESSERA_PASSES_SCHEDULE_STORED_H

#include "dialects/dist/Dist.h"
#include "dialects/nn/NN.h"
#include "llvm/ADT/StringMap.h"

namespace tessera {

/// What the operators of a block may not be moved across, collected once: writes of its variables, and the
/// steps of a pipeline. Holds while no nn.assign and no dist.step is added, erased or moved across another.
class Hazards {
public:
  explicit Hazards(mlir::Block &block);

  /// The operators of the block that write a variable: its assignments, and what computes the assigned
  /// values, which may do so in place.
  llvm::SmallVector<mlir::Operation *> writers(llvm::StringRef variable) const;
  /// Whether a step of a pipeline begins between two operators of the block.
  bool hasStepBetween(mlir::Operation *from, mlir::Operation *to) const;

private:
  mlir::Block &block;
  llvm::StringMap<llvm::SmallVector<nn::AssignOp, 1>> assigns; // by variable
  llvm::SmallVector<dist::StepOp> steps;                       // in the order of the block
};

/// The variable that a value is, as it is stored or converted; null for others.
nn::ReadOp storedRead(mlir::Value value);

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
