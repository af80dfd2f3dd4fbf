// What a product of the library ends with: what the schedule asks of the operators behind it, and what it
// becomes.
#ifndef TESSERA_DIALECTS_NN_EPILOGUE_H
#define TESSERA_DIALECTS_NN_EPILOGUE_H

#include "dialects/nn/NN.h"

namespace tessera::nn {

/// One operator behind a product: a bias, an activation, or the product with an activation's derivative.
struct Epilogue {
  /// Added along the last dimension.
  mlir::Value bias = {};
  /// As in `nn.fused_contract`.
  llvm::StringRef activation = "none";
  /// What the derivative is taken at; null: the activation is applied.
  mlir::Value at = {};
};

} // namespace tessera::nn

#include "dialects/nn/EpilogueInterface.h.inc"
#define GET_OP_CLASSES
#include "dialects/nn/EpilogueOps.h.inc"

namespace tessera::nn {
/// Gives the interface to the operators that products end with.
void attachEpilogues(mlir::MLIRContext &context);
} // namespace tessera::nn
#endif
