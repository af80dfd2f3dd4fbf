// What the per-rank forms of attention share, those that patterns build too.
#ifndef TESSERA_DIALECTS_NN_LOCALATTENTION_H
#define TESSERA_DIALECTS_NN_LOCALATTENTION_H

#include "dialects/nn/Builders.h"

namespace tessera::nn {

/// The operands `random` of a rank's part of `attention`, an attention or its gradient, that drops weights:
/// `key`, the operator's id, and for each row of queries the number of its first weight less `keyOffset`,
/// where the operand `range` says the first key to be.
llvm::SmallVector<mlir::Value> localDropout(mlir::Operation *attention, LocalBuilder &builder,
                                            mlir::Value key, int64_t keyOffset);

} // namespace tessera::nn
#endif
