// ZeRO-Offload: the optimizer's state is on the host, all else stays.
#include "passes/Tiers/Policies/Demand.h"
#include "passes/Tiers/Policies/Rules.h"
#include <cstdint>
#include <vector>

using namespace tessera::tiers;

/// What is updated on the host has its parameter there too, which stays on the device from its first use to
/// its last; its gradient goes down when it is there. Of other updates the next one's state comes up and the
/// last one's goes down while one runs.
Moves tessera::tiers::zeroOffload(const Step &step, const Limits &limits) {
  DemandRules rules;
  rules.capacity.assign(step.bytes.size(), limits.device);
  for (const Value &value : step.values)
    rules.rules.push_back(value.kind == Kind::Optimizer || value.sinksInto >= 0 ? Rule::Streamed
                                                                                : Rule::Stays);
  rules.key = [](int64_t, int64_t next) { return next; };
  Moves moves = fetchOnDemand(step, rules);
  if (moves)
    overlapOne(step, *moves, limits.device);
  return moves;
}
