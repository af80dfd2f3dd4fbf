// Who writes the variables of a program, and what else its operators may not be moved across.
#ifndef TESSERA_PASSES_MEMORY_HAZARDS_H
#define TESSERA_PASSES_MEMORY_HAZARDS_H

#include "dialects/dist/Dist.h"
#include "dialects/nn/NN.h"
#include "llvm/ADT/StringMap.h"

namespace tessera {

/// Writes of a block's variables, and the steps of a pipeline in it, collected once: ordering, overlap,
/// panels, buckets and places ask here. Holds while no assignment and no dist.step is added, erased or moved
/// across another.
class Hazards {
public:
  explicit Hazards(mlir::Block &block);

  /// The variables that the block assigns.
  auto written() const { return assigns.keys(); }
  /// The operators of the block that write a variable: its assignments, and what computes the assigned
  /// values, which may do so in place.
  llvm::SmallVector<mlir::Operation *> writers(llvm::StringRef variable) const;
  /// The variable that is assigned `value`; null where none is.
  mlir::FlatSymbolRefAttr assignedTo(mlir::Value value) const { return targets.lookup(value); }
  /// All writers of variables and steps, in the order of the block.
  llvm::SmallVector<mlir::Operation *> all() const;
  /// Whether a step of a pipeline begins between two operators of the block.
  bool hasStepBetween(mlir::Operation *from, mlir::Operation *to) const;

private:
  mlir::Block &block;
  llvm::StringMap<llvm::SmallVector<mlir::Operation *, 1>> assigns; // by variable
  llvm::DenseMap<mlir::Value, mlir::FlatSymbolRefAttr> targets;
  llvm::SmallVector<dist::StepOp> steps; // in the order of the block
};

} // namespace tessera
#endif
