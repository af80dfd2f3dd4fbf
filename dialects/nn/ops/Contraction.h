// What the kinds of contraction share. Not for other folders.
#ifndef TESSERA_DIALECTS_NN_OPS_CONTRACTION_H
#define TESSERA_DIALECTS_NN_OPS_CONTRACTION_H

#include "dialects/nn/OpSupport.h"

namespace tessera::nn {

/// The words of a contraction and its operands.
struct Contraction {
  llvm::StringRef lhs, rhs, out;
  mlir::Value a, b;
};

/// Checks words and sizes, and appends the result's shape.
llvm::LogicalResult inferContraction(std::optional<mlir::Location> location, const Contraction &contraction,
                                     llvm::SmallVectorImpl<int64_t> &shape);

} // namespace tessera::nn
#endif
