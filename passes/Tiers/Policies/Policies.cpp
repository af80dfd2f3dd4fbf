#include "passes/Tiers/Policies/Policies.h"
#include "passes/Tiers/Policies/Rules.h"
#include "passes/Tiers/Tiers.h"
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

using namespace tessera::tiers;

namespace {

using Moving = Moves (*)(const Step &step, const Limits &limits);
constexpr std::pair<std::string_view, Moving> kRules[] = {
    {"patrickstar", patrickStar}, {"elixir", elixir},          {"zero-offload", zeroOffload},
    {"lru", leastRecentlyUsed},   {"belady", farthestNextUse},
};

} // namespace

const std::vector<std::string_view> &tessera::tiers::policies() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> names = {"planned"};
    for (auto [name, rule] : kRules)
      names.push_back(name);
    return names;
  }();
  return names;
}

std::optional<Plan> tessera::tiers::planBy(std::string_view policy, const Step &step, const Limits &limits,
                                           const Rates &rates, double effort) {
  for (auto [name, rule] : kRules)
    if (name == policy) {
      Moves moves = rule(step, limits);
      if (!moves)
        return std::nullopt;
      Plan plan = judge(step, std::move(*moves), rates);
      bool fits = plan.devicePeak <= limits.device && plan.hostPeak <= limits.host;
      return fits ? std::optional(std::move(plan)) : std::nullopt;
    }
  return choose(step, limits, rates, effort);
}
