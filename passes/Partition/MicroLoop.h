// The loop over microbatches. Whatever depends on a slice over the axis "micro" runs once a microbatch; whatever reduces over it accumulates.
#ifndef TESSERA_PASSES_PARTITION_MICROLOOP_H
#define TESSERA_PASSES_PARTITION_MICROLOOP_H

#include "dialects/dist/Dist.h"
#include "dialects/nn/NN.h"

namespace tessera {

/// Marks `value` as the term of a sum over microbatches; the result stands for the sum.
mlir::Value markAccumulation(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value);

/// Splits the block into what precedes the loop (free of microbatches), one dist.loop, and what follows (uses sums), and replaces
/// the marks by values carried through the loop. Parameters' copies that only the body uses are made once, before it.
mlir::LogicalResult formMicroLoop(mlir::Block &block, int64_t times, llvm::ArrayRef<mlir::Operation *> marks);

} // namespace tessera
#endif
