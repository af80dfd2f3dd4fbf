// Where in a step the host starts what it does, and where that is waited for, once a plan is chosen.
#ifndef TESSERA_PASSES_TIERS_HOSTPLACES_H
#define TESSERA_PASSES_TIERS_HOSTPLACES_H

#include "passes/Tiers/Tiers.h"
#include <cstdint>
#include <vector>

namespace tessera::tiers {

/// Positions; of what does not run on the host -1. What begins at the end of the step is waited for there
/// before the next one begins.
struct HostPlaces {
  /// Where each conversion starts, parallel to `Step::conversions`.
  std::vector<int64_t> conversions;
  /// Where each update begins and is waited for, parallel to `Step::updates`.
  std::vector<int64_t> begins, ends;
  /// Updates in the order in which they begin.
  std::vector<int> queue;
};

/// Conversions start with the step, updates begin when their gradients are there and are waited for at the
/// end: nothing depends on the clock.
HostPlaces widePlaces(const Step &step, const std::vector<Move> &moves);

/// Everything begins as late and is waited for as early as the simulated clock has time for, so that the
/// host's memory is free of what it reads and makes before and behind. The step takes as long.
HostPlaces closePlaces(const Step &step, const std::vector<Move> &moves, const Rates &rates);

} // namespace tessera::tiers
#endif
