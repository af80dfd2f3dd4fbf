// The best plan of a small step, by trying all.
#ifndef TESSERA_TEST_UNIT_TIERS_EXHAUSTIVE_H
#define TESSERA_TEST_UNIT_TIERS_EXHAUSTIVE_H

#include "passes/Tiers/Tiers.h"
#include <cstdint>
#include <vector>

namespace tessera::tiers {

struct Optimum {
  /// Infinity where no plan is within the limits.
  double seconds = 0;
  /// Whether all was tried before `tries` simulations were done: else the optimum may be less.
  bool proven = false;
  std::vector<Move> moves; // where less than the bound was found
};

/// The least seconds of any moves within the limits that are less than `bound`, or `bound`. All gaps with all
/// their positions are tried, in the order of the uses that they come back for, leaving out only what cannot
/// be within the limits or better: further moves never make a step faster.
Optimum exhaustive(const Step &step, const Limits &limits, const Rates &rates, double bound, int64_t tries);

} // namespace tessera::tiers
#endif
