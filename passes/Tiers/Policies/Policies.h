// Plans by the rules that other systems publish, to compare with what `choose` finds. Each is a static plan
// of the same step, emitted and measured as any other.
//
// Three things hold for all of them that hold for none of the systems. They move chunks of many parameters,
// here every value moves alone. They update on the host what rests there, here only `zero-offload` does,
// where the pass has said so; else state comes up for its update and goes down behind it. And no transfer
// crosses the end of the step: a variable that leaves the device at any time rests on the host, where a cache
// would have it stay from one step to the next. Such a one goes down beside computing behind its last use,
// which is kinder to them than their rules are.
#ifndef TESSERA_PASSES_TIERS_POLICIES_POLICIES_H
#define TESSERA_PASSES_TIERS_POLICIES_POLICIES_H

#include "passes/Tiers/Tiers.h"
#include <optional>
#include <string_view>
#include <vector>

namespace tessera::tiers {

/// The names of policies: "planned", which is `choose`, then those for comparison.
const std::vector<std::string_view> &policies();

/// The plan of the policy of that name within the limits; nothing where its rule does not lead to one.
/// `effort`: of "planned", as of `choose`.
std::optional<Plan> planBy(std::string_view policy, const Step &step, const Limits &limits,
                           const Rates &rates, double effort = 1);

} // namespace tessera::tiers
#endif
