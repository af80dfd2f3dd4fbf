// The loop over microbatches. Whatever depends on a slice over the axis "micro" runs once a microbatch;
// whatever reduces over it accumulates.
#ifndef TESSERA_PASSES_PARTITION_MICROLOOP_H
#define TESSERA_PASSES_PARTITION_MICROLOOP_H

#include "dialects/dist/Dist.h"
#include "dialects/nn/NN.h"
#include "runtime/core/shards.h"

namespace tessera {

/// Fails, saying where, if an operator needs a value of one microbatch and a sum over all of them
/// (dist.accumulate).
mlir::LogicalResult checkMicroSums(mlir::Block &block);

/// Splits the block into what precedes the loop (free of microbatches), one dist.loop, and what follows (uses
/// sums), and replaces each dist.accumulate by a value carried through the loop. Parameters' copies that only
/// the body uses are made once, before it. With several `levels` (rt::Shards::microbatchLevels), terms are
/// added in a tree, a value carried for each.
mlir::LogicalResult formMicroLoop(mlir::Block &block, int64_t times, const std::vector<int64_t> &levels);

} // namespace tessera
#endif
