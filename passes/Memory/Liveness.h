// When operators run and how long values are read.
#ifndef TESSERA_PASSES_MEMORY_LIVENESS_H
#define TESSERA_PASSES_MEMORY_LIVENESS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera {

/// Whether the result is the operand's bytes, or the first of them.
bool isView(mlir::Operation *op);
/// Whether it is one number everywhere that memory planning fills in, where it is used: not what a loop
/// begins with, which is filled in where the loop has it.
bool isFilled(mlir::Operation *op);
/// Whether it is the first addition to such zeros.
bool addsToFilled(mlir::Operation *op);

/// Positions in the order of a program: memory is a function of these, never of the clock.
class Liveness {
public:
  explicit Liveness(mlir::func::FuncOp func);

  /// Where an operator runs.
  int64_t start(mlir::Operation *op) const { return starts.at(op); }
  /// Behind the last operator of its regions.
  int64_t end(mlir::Operation *op) const { return ends.at(op); }
  /// Where the value, or a view of it, is read last; 0 when it is not. What a loop reads from outside is read
  /// until the loop ends, what a collective, a transfer or a
  /// function of the host is started with until it has been waited for.
  int64_t lastUse(mlir::Value value) const;

private:
  void number(mlir::Block &block);

  int64_t at = 0;
  llvm::DenseMap<mlir::Operation *, int64_t> starts, ends;
  llvm::DenseMap<mlir::Value, int64_t> uses;
};

} // namespace tessera
#endif
