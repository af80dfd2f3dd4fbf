// A device's memory as a cache of values that are fetched when an operator uses them. Internal to policies.
#ifndef TESSERA_PASSES_TIERS_POLICIES_DEMAND_H
#define TESSERA_PASSES_TIERS_POLICIES_DEMAND_H

#include "passes/Tiers/Tiers.h"
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace tessera::tiers {

enum class Rule {
  Stays,  // never leaves
  Cached, // is put away where there must be room
  /// Rests on the host, comes up for each use and is put away behind it.
  Streamed,
};

struct DemandRules {
  /// The most bytes that the device may have taken while each operator runs.
  std::vector<int64_t> capacity;
  std::vector<Rule> rules; // parallel to the step's values
  /// The value with the largest key is put away, of equal ones the first. By the positions of its uses before
  /// now and behind: in the step before less than 0, in the next one at least the number of positions.
  std::function<int64_t(int64_t last, int64_t next)> key;
};

/// Walks through the step: what an operator uses and is not there is fetched, then values that it does not
/// use are put away until it has room. Both are waited for where they start. Nothing where that does not lead
/// to room for every operator.
std::optional<std::vector<Move>> fetchOnDemand(const Step &step, const DemandRules &rules);

/// Lets each transfer have the time of one more: a prefetch starts where the one before is needed, an offload
/// is waited for where the one behind starts, as far as the device has room.
void overlapOne(const Step &step, std::vector<Move> &moves, int64_t capacity);

/// Bytes of each position that are of the values which `counts` holds for, if nothing leaves.
std::vector<int64_t> bytesOf(const Step &step, const std::function<bool(const Value &)> &counts);

} // namespace tessera::tiers
#endif
