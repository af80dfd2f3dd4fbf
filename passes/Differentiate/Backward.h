// The reverse sweep: from the cotangent of one value to those of variables.
#ifndef TESSERA_PASSES_DIFFERENTIATE_BACKWARD_H
#define TESSERA_PASSES_DIFFERENTIATE_BACKWARD_H

#include "dialects/nn/NN.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

namespace tessera {

/// Variables among those asked for that get no gradient, by the operator that cuts each off: the first one on
/// its way to the result without a gradient other than zero. Null where the result does not depend on the
/// variable at all.
using Ungraded = llvm::MapVector<mlir::Operation *, llvm::SmallVector<llvm::StringRef>>;
Ungraded withoutGradient(mlir::Block &block, mlir::Value root, llvm::ArrayRef<llvm::StringRef> variables);

/// Why no gradient passes the operator, as the end of a sentence that its name begins.
llvm::StringRef whyNoGradient(mlir::Operation *op);

/// Appends to `block` the operators that compute the cotangents of the variables in `trained`, given that of
/// `root`, a result in that block: `seed`, of its type. Returns for each variable that `root` depends on its
/// cotangent, an `nn.acc`, in the order of the block's reads. Every forward operator has its `nn.id`. Fails,
/// with a message, where `root` depends on one of them through an operator whose gradient is not zero but
/// that nobody computes.
llvm::FailureOr<llvm::MapVector<llvm::StringRef, mlir::Value>>
buildBackward(mlir::Block &block, mlir::Value root, mlir::Value seed, const llvm::StringSet<> &trained);

} // namespace tessera
#endif
