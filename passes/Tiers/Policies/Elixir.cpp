// Elixir on one device: its cache of parameters has all of the room first, optimizer state has what is left;
// the next fetch runs beside computing.
#include "passes/Tiers/Policies/Demand.h"
#include "passes/Tiers/Policies/Rules.h"
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

using namespace tessera::tiers;

/// The room is 0.95 (device - 1.25 activations); Elixir leaves 2 GiB more, for what the device's software
/// takes, which no cap counts here. What differs beside what holds for all policies: no chunk size is
/// searched for, and what a parameter that is used by several operators takes is cached as any other's.
Moves tessera::tiers::elixir(const Step &step, const Limits &limits) {
  constexpr double kOverall = 0.95, kActivations = 1.25;
  std::vector<int64_t> model =
      bytesOf(step, [](const Value &value) { return value.kind != Kind::Activation; });
  std::vector<int64_t> others(model.size());
  for (size_t p = 0; p < others.size(); ++p)
    others[p] = step.bytes[p] - model[p];
  int64_t most = others.empty() ? 0 : *std::max_element(others.begin(), others.end());
  auto room = static_cast<int64_t>(
      kOverall * (static_cast<double>(limits.device) - kActivations * static_cast<double>(most)));
  if (room < 0) // "activation is too large"
    return std::nullopt;
  int64_t left = room;
  for (const Value &value : step.values)
    left -= value.kind == Kind::Parameter ? value.bytes : 0;
  DemandRules rules;
  for (const Value &value : step.values) {
    bool resident = value.kind == Kind::Optimizer && value.bytes <= left;
    if (resident)
      left -= value.bytes;
    rules.rules.push_back(value.kind == Kind::Parameter                ? Rule::Cached
                          : value.kind == Kind::Optimizer && !resident ? Rule::Streamed
                                                                       : Rule::Stays);
  }
  // What is up for its update is beside the cache.
  std::vector<int64_t> streamed(step.bytes.size());
  for (size_t v = 0; v < step.values.size(); ++v)
    if (rules.rules[v] == Rule::Streamed)
      for (const Use &use : step.values[v].uses)
        streamed[use.position] += step.values[v].bytes;
  for (size_t p = 0; p < others.size(); ++p)
    rules.capacity.push_back(std::min(limits.device, others[p] + room + streamed[p]));
  rules.key = [](int64_t, int64_t next) { return next; };
  Moves moves = fetchOnDemand(step, rules);
  if (moves)
    overlapOne(step, *moves, limits.device);
  return moves;
}
