// The reverse sweep: from the cotangent of one value to those of variables.
#ifndef TESSERA_PASSES_DIFFERENTIATE_BACKWARD_H
#define TESSERA_PASSES_DIFFERENTIATE_BACKWARD_H

#include "dialects/nn/NN.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

namespace tessera {

/// Appends to `block` the operators that compute the cotangents of the variables in `trained`, given that of
/// `root`, a result in that block: `seed`, of its type. Returns for each variable that `root` depends on its
/// cotangent, an `nn.acc`, in the order of the block's reads. Every forward operator has its `nn.id`.
llvm::FailureOr<llvm::MapVector<llvm::StringRef, mlir::Value>>
buildBackward(mlir::Block &block, mlir::Value root, mlir::Value seed, const llvm::StringSet<> &trained);

} // namespace tessera
#endif
