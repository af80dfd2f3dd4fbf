// PatrickStar: parameters are a cache in what activations leave of the device, and as much of the optimizer's
// state as the fullest moment leaves room for has its place there; the rest of it is on the host.
#include "passes/Tiers/Policies/Demand.h"
#include "passes/Tiers/Policies/Rules.h"
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

using namespace tessera::tiers;

/// A chunk is as large as the largest parameter, which it must hold. Where a moment's room is for chunks that
/// it has and two more, it is so here for values. What differs beside what holds for all policies: a copy on
/// the host stays valid while the value is on the device, where a chunk is in one place only and goes down
/// each time; gradients are values of their own, where PatrickStar puts them over the parameters.
Moves tessera::tiers::patrickStar(const Step &step, const Limits &limits) {
  constexpr double kOverall = 0.8, kMargin = 0.8; // of the device; of what is left for optimizer state
  std::vector<int64_t> model =
      bytesOf(step, [](const Value &value) { return value.kind != Kind::Activation; });
  std::vector<int64_t> others(model.size());
  for (size_t p = 0; p < others.size(); ++p)
    others[p] = step.bytes[p] - model[p];
  int64_t chunk = 0, parameters = 0;
  for (const Value &value : step.values)
    if (value.kind == Kind::Parameter) {
      chunk = std::max(chunk, value.bytes);
      parameters += value.bytes;
    }
  auto overall = static_cast<int64_t>(kOverall * static_cast<double>(limits.device));
  DemandRules rules;
  // The room of a moment is that of the one behind it too.
  for (size_t p = 0; p < others.size(); ++p) {
    int64_t next = others[(p + 1) % others.size()];
    rules.capacity.push_back(overall - std::max<int64_t>(0, next - others[p]) - 2 * chunk);
  }
  int64_t most = others.empty() ? 0 : *std::max_element(others.begin(), others.end());
  double margin = kMargin * static_cast<double>(overall - most - parameters);
  for (const Value &value : step.values) {
    bool fits = value.kind == Kind::Optimizer && static_cast<double>(value.bytes) <= margin;
    if (fits)
      margin -= static_cast<double>(value.bytes);
    rules.rules.push_back(value.kind == Kind::Activation           ? Rule::Stays
                          : value.kind == Kind::Optimizer && !fits ? Rule::Streamed
                                                                   : Rule::Cached);
  }
  // Belady's, by the moments that the first iteration has recorded.
  rules.key = [](int64_t, int64_t next) { return next; };
  return fetchOnDemand(step, rules);
}
