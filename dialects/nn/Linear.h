// Which operators a partial sum may pass through.
#ifndef TESSERA_NN_LINEAR_H
#define TESSERA_NN_LINEAR_H

namespace mlir {
class Operation;
}

namespace tessera::nn {

/// Whether `op` is linear in operand `operand` while the other operands stay what they are: the sum over
/// ranks of its results is then its result for the sum.
bool isLinearIn(mlir::Operation *op, unsigned operand);

} // namespace tessera::nn
#endif
