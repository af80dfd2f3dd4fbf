// Prints small steps, one JSON object a line, with what the search makes of each and, where few enough plans
// exist to try all, the best of them: test/e2e/test_tier_optima.py solves them exactly.
//
//   tier-steps COUNT SEED LAYERS   # chains, U-Nets and shared weights of 2 to LAYERS layers, each at 8
//   limits
#include "Exhaustive.h"
#include "Traces.h"
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

using namespace tessera::tiers;

namespace {

nlohmann::json toJson(const Step &step) {
  nlohmann::json values = nlohmann::json::array();
  for (const Value &value : step.values) {
    nlohmann::json uses = nlohmann::json::array();
    for (const Use &use : value.uses)
      uses.push_back({use.position, use.writes});
    values.push_back({{"bytes", value.bytes}, {"rests", value.rests}, {"uses", uses}});
  }
  return {{"seconds", step.seconds}, {"bytes", step.bytes}, {"values", values}};
}

constexpr int64_t kLimits = 8;

Rates anyRates(Random &random) {
  return {static_cast<double>(between(random, 2, 12)) / 2, static_cast<double>(between(random, 2, 12)) / 2,
          static_cast<double>(between(random, 0, 2)) / 4};
}

/// A step with a limit, one of those from the least possible up, and rates.
nlohmann::json solved(const Step &step, int64_t limit, const Rates &rates) {
  constexpr int64_t kTries = 20'000, kMostValues = 9;
  int64_t all = *std::max_element(step.bytes.begin(), step.bytes.end());
  int64_t least = leastDeviceBytes(step).first;
  Limits limits{least + (all - least) * limit / kLimits};
  std::optional<Plan> plan = choose(step, limits, rates);
  nlohmann::json result = toJson(step);
  result["device"] = limits.device;
  result["rates"] = {rates.bytesDown, rates.bytesUp, rates.latency};
  result["plan"] = plan->seconds;
  if (static_cast<int64_t>(step.values.size()) <= kMostValues)
    if (Optimum best = exhaustive(step, limits, rates, plan->seconds, kTries); best.proven)
      result["best"] = best.seconds;
  return result;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 4) {
    std::cerr << "usage: tier-steps COUNT SEED LAYERS\n";
    return 2;
  }
  Random random(std::strtoull(argv[2], nullptr, 10));
  for (int64_t i = 0; i < std::atoll(argv[1]); ++i) {
    Network network{between(random, 2, std::atoll(argv[3])), i % 3 == 1, i % 3 == 2, i % 2 == 0};
    Step step = training(random, network);
    Rates rates = anyRates(random);
    for (int64_t limit = 0; limit < kLimits; ++limit)
      std::cout << solved(step, limit, rates) << "\n";
  }
  return 0;
}
