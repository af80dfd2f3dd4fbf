// Which values from outside of a loop come up in each turn of it, and the step in which they do.
#include "passes/Tiers/Tiers.h"
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

using namespace tessera::tiers;

namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();
/// Plans are only compared, and many: see `choose`.
constexpr double kEffort = 0.01;
/// Into how many parts the values are divided at first, and how often the two beside the best are halved.
constexpr size_t kParts = 4;
constexpr int kHalvings = 2;

/// A sum rests on the host as if from step to step: the host makes what it begins with.
void beginOnHost(Step &step, Value &sum) {
  Conversion &zeros = step.conversions[sum.zeros];
  zeros.onHost = true;
  sum.made = step.converting += zeros.seconds;
  sum.rests = true;
  for (int64_t p = 0; p < sum.uses.front().position; ++p)
    step.bytes[p] += sum.bytes;
  for (size_t p = sum.uses.back().position + 1; p < step.bytes.size(); ++p)
    step.bytes[p] += sum.bytes;
}

/// The gaps that a turn begins and ends in are moved whatever is chosen.
void comeUpInTurns(Step &step, Value &value) {
  const Loop &loop = step.loop;
  if (value.zeros >= 0)
    beginOnHost(step, value);
  if (value.sinksInto >= 0) // its last gap has another number
    value.always.clear();
  std::vector<Use> uses;
  for (const Use &use : value.uses)
    if (use.position < loop.begin)
      uses.push_back(use);
  auto first = static_cast<int>(uses.size());
  uses.insert(uses.end(), value.inLoop.begin(), value.inLoop.end());
  auto behind = static_cast<int>(uses.size());
  for (const Use &use : value.uses)
    if (use.position > loop.end)
      uses.push_back(use);
  auto count = static_cast<int>(uses.size());
  value.turns = true;
  value.loopGap = -1;
  value.below = value.rests;
  value.always.push_back(first > 0 ? first - 1 : count - 1);
  if (value.rests || behind < count)
    value.always.push_back(behind - 1);
  else // there is nothing of it on the device behind its last use
    for (int64_t p = uses.back().position + 1; p <= loop.end; ++p)
      step.bytes[p] -= value.bytes;
  value.uses = std::move(uses);
  if (value.sinksInto >= 0)
    value.always.push_back(count - 2);
}

/// The time of a step by how many values come up in each turn: the largest first, and sums, which go down in
/// each turn too, behind all others.
class ByCount {
public:
  ByCount(const Step &step, const Limits &limits, const Rates &rates)
      : step(step), limits(limits), rates(rates) {
    std::vector<bool> all = allTurns(step);
    for (size_t v = 0; v < all.size(); ++v)
      if (all[v] && !step.values[v].turns)
        order.push_back(v);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const Value &one = step.values[a], &other = step.values[b];
      return std::pair(one.zeros < 0, one.bytes) > std::pair(other.zeros < 0, other.bytes);
    });
  }

  size_t size() const { return order.size(); }
  std::vector<bool> first(size_t count) const {
    std::vector<bool> turns(step.values.size());
    for (size_t v = 0; v < turns.size(); ++v)
      turns[v] = step.values[v].turns;
    for (size_t i = 0; i < count; ++i)
      turns[order[i]] = true;
    return turns;
  }
  double seconds(size_t count) {
    auto [it, isNew] = known.try_emplace(count, kForever);
    if (isNew)
      if (auto plan = choose(withTurns(step, first(count)), limits, rates, kEffort))
        it->second = plan->seconds;
    return it->second;
  }

private:
  const Step &step;
  const Limits &limits;
  const Rates &rates;
  std::vector<size_t> order;
  std::map<size_t, double> known;
};

} // namespace

Step tessera::tiers::withTurns(const Step &step, const std::vector<bool> &turns) {
  Step result = step;
  for (size_t v = 0; v < turns.size(); ++v)
    if (Value &value = result.values[v]; turns[v] && !value.turns && !value.inLoop.empty())
      comeUpInTurns(result, value);
  return result;
}

std::vector<bool> tessera::tiers::allTurns(const Step &step) {
  std::vector<bool> turns;
  for (const Value &value : step.values)
    turns.push_back(value.turns || (!value.inLoop.empty() && !value.decided));
  return turns;
}

std::vector<bool> tessera::tiers::chooseTurns(const Step &step, const Limits &limits, const Rates &rates) {
  ByCount times(step, limits, rates);
  const size_t n = times.size();
  const double enough = kEnough * std::accumulate(step.seconds.begin(), step.seconds.end(), 0.0);
  if (n == 0 || times.seconds(0) <= enough)
    return times.first(0);
  size_t best = 0;
  auto attempt = [&](size_t count) {
    if (times.seconds(best) > enough &&
        std::pair(times.seconds(count), count) < std::pair(times.seconds(best), best))
      best = count;
  };
  for (size_t part = 1; part <= kParts; ++part)
    attempt(n * part / kParts);
  size_t width = n / kParts;
  for (int i = 0; i < kHalvings; ++i) {
    width = std::max<size_t>(1, width / 2);
    size_t middle = best;
    attempt(middle - std::min(middle, width));
    attempt(std::min(n, middle + width));
  }
  return times.first(times.seconds(best) < kForever ? best : n);
}
