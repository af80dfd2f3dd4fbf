// The equal blocks of a program, such as the layers of a transformer, and the same program with fewer of
// them.
#ifndef TESSERA_PASSES_ASSIGN_BLOCKS_H
#define TESSERA_PASSES_ASSIGN_BLOCKS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/ArrayRef.h"
#include <vector>

namespace tessera {

/// Copies of one block, one behind the other. Every copy has the same operators, which take their operands
/// alike: from the same place of their own copy or of one before it, from a value that all copies read, or
/// computed of parameters of equal types in the same way. The first copy may take others from outside where
/// the rest take those of the copy before.
struct BlockRun {
  size_t copies = 0;
  /// Copy after copy. Operators that lead from parameters or constants to these are not among them.
  std::vector<mlir::Operation *> ops;
  /// From outside only so many of the last copies are read.
  size_t read = 1;

  size_t length() const { return ops.size() / copies; }
  llvm::ArrayRef<mlir::Operation *> copy(size_t i) const {
    return llvm::ArrayRef(ops).slice(i * length(), length());
  }
};

/// The runs of a program that has not been differentiated, of at least three copies, in its order.
std::vector<BlockRun> blockRunsOf(mlir::func::FuncOp func);

/// Leaves the first `kept` copies of a run, at least `run.read`: what read the last copies reads the last of
/// those. Erases what nothing needs any more, variables included.
void keepCopies(const BlockRun &run, size_t kept);

} // namespace tessera
#endif
