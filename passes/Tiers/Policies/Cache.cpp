// A cache alone: what is fetched when it is used, and what is put away for it, without a look ahead at the
// clock. Everything takes part that may leave the device at all.
#include "passes/Tiers/Policies/Demand.h"
#include "passes/Tiers/Policies/Rules.h"
#include <cstdint>
#include <optional>
#include <vector>

using namespace tessera::tiers;

namespace {

Moves cache(const Step &step, const Limits &limits, int64_t (*key)(int64_t last, int64_t next)) {
  return fetchOnDemand(step, {std::vector<int64_t>(step.bytes.size(), limits.device),
                              std::vector<Rule>(step.values.size(), Rule::Cached), key});
}

} // namespace

Moves tessera::tiers::leastRecentlyUsed(const Step &step, const Limits &limits) {
  return cache(step, limits, [](int64_t last, int64_t) { return -last; });
}

Moves tessera::tiers::farthestNextUse(const Step &step, const Limits &limits) {
  return cache(step, limits, [](int64_t, int64_t next) { return next; });
}
