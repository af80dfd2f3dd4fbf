// Transfers between tiers, as passes/Tiers has chosen them, in a scheduled program.
#ifndef TESSERA_PASSES_SCHEDULE_TRANSFERS_H
#define TESSERA_PASSES_SCHEDULE_TRANSFERS_H

#include "passes/Schedule/TierTrace.h"
#include "passes/Tiers/HostPlaces.h"

namespace tessera {

/// Writes the starts and waits of `moves` into the function that `trace` is of, which holds no longer
/// afterwards. What reads a value behind a gap reads what came back. A variable whose gap round the end of
/// the step is moved is read and assigned as a copy below; that it rests there (`dist.rests`) is for others
/// to say.
/// Returns how many transfers there are.
int64_t emitTransfers(const TierTrace &trace, llvm::ArrayRef<tiers::Move> moves,
                      const tiers::HostPlaces &host);

/// What the moves take out of the trace's tier, by category: `1.5 MiB (..) of optimizer (2 values), ...`.
std::string movedText(const TierTrace &trace, llvm::ArrayRef<tiers::Move> moves);

/// Whether the move is of the gap round the end of the step, of a variable or of what the host makes in each
/// step: it rests below.
inline bool movesHome(const TierTrace &trace, const tiers::Move &move) {
  const tiers::Value &value = trace.step.values[move.value];
  return value.rests && move.gap + 1 == int(value.uses.size());
}

} // namespace tessera
#endif
