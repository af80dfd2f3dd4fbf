// A plan beside those that differ from it in one gap, and what happens when.
#include "passes/Tiers/Draft.h"
#include "passes/Tiers/Gaps.h"
#include "passes/Tiers/Search.h"
#include "passes/Tiers/Tiers.h"
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

using namespace tessera::tiers;

namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

void load(Draft &draft, const Plan &plan) {
  const Problem &problem = draft.problem();
  std::vector<Away> aways(problem.gaps.size());
  for (const Move &move : plan.moves)
    for (int gap : problem.gapsOf[move.value])
      if (problem.gaps[gap].gap == move.gap)
        aways[gap] = {move.offload, move.gone, move.prefetch};
  draft.load(aways);
  draft.simulate(kForever);
  draft.keep();
}

} // namespace

std::vector<Alternative> tessera::tiers::alternatives(const Step &step, const Plan &plan,
                                                      const Limits &limits, const Rates &rates) {
  // What is decided could be decided otherwise, too.
  Step open = step;
  for (Value &value : open.values) {
    if (!value.turns) { // which is decided first
      value.always.clear();
      value.below = value.made >= 0; // the host makes it in each step
      if (value.sinksInto >= 0)
        value.always = {static_cast<int>(value.uses.size()) - 2};
    }
    value.decided = false;
  }
  for (const Update &update : open.updates)
    if (update.onHost) // where it runs is decided first
      open.values[update.parameter].below = true;
  Problem problem(open, limits, rates);
  Draft draft(problem);
  load(draft, plan);
  std::vector<Alternative> list;
  for (size_t g = 0; g < problem.gaps.size(); ++g) {
    auto gap = static_cast<int>(g);
    if (problem.isAlways(problem.gaps[g]))
      continue;
    Alternative &other = list.emplace_back();
    other.value = problem.gaps[g].value;
    other.gap = problem.gaps[g].gap;
    other.isMoved = draft.away(gap).moved();
    other.planSeconds = draft.seconds();
    if (other.isMoved) {
      draft.change(gap, {});
    } else {
      draft.change(gap, {-1, -1, problem.gaps[g].next});
      draft.change(gap, placed(draft, gap, 1));
    }
    other.seconds = draft.simulate(kForever);
    other.devicePeak = draft.device().most();
    other.peakAt = draft.device().firstAbove({0, problem.positions}, other.devicePeak - 1);
    std::vector<int64_t> host = hostBytes(step, draft.moves());
    other.hostPeak = *std::max_element(host.begin(), host.end());
    draft.undo();
  }
  return list;
}

std::vector<double> tessera::tiers::timeline(const Step &step, const Plan &plan, const Rates &rates) {
  Problem problem(step, {}, rates);
  Draft draft(problem);
  load(draft, plan);
  std::vector<double> times;
  for (int64_t p = 0; p <= problem.positions; ++p)
    times.push_back(draft.moment(p).now);
  return times;
}
