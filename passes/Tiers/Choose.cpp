// Which gaps to move, by price.
#include "passes/Tiers/Gaps.h"
#include "passes/Tiers/Heights.h"
#include "passes/Tiers/Search.h"
#include "passes/Tiers/Tiers.h"
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

using namespace tessera::tiers;

namespace {

constexpr int64_t kBlock = Heights::kBlock;
/// A gap is as good as the best if it is within so much of it; in large steps, where looking again at all
/// that may be better takes most of the time, within more.
constexpr double kAsGood = 0.97, kAsGoodInLarge = 0.9;

class Choice {
public:
  Choice(const Problem &problem, int64_t target, const Prices &prices);
  bool reachTarget(int64_t stays);
  void dropNeedless();
  std::vector<int> chosen() const;

private:
  /// What moving the gap takes off what is above the target, for its price. Gaps are compared by it.
  float rate(int gap);
  double gainWithin(Range range, int64_t bytes) const;
  /// What keeping the gap, which is moved, adds to the price of its value.
  double priceOfKeeping(int gap);
  bool hostHasRoom(int gap);
  bool deviceHasRoom(int gap);
  /// What changes of a value when it is changed to `then`: fn(gap, whether it is moved then).
  template <typename Fn> void forEachChange(int value, const std::vector<Away> &then, Fn fn) const;
  void set(int gap, bool moved);
  /// The value's gaps as they are but for this one.
  const std::vector<Away> &with(int gap, bool moved);
  double priceOf(int value, const std::vector<Away> &aways) const;

  const Problem &problem;
  const Prices &prices;
  Heights above;                            // bytes above the target, or less than none
  std::vector<double> weight, blockWeights; // of each position, and of those of a block together
  Heights host;
  double hostBytes;                     // that its price is for
  std::vector<std::vector<Away>> aways; // by value
  std::vector<int> indexInValue;        // by gap
  std::vector<double> priceNow;         // by value
  std::vector<Away> scratch;
};

Choice::Choice(const Problem &problem, int64_t target, const Prices &prices)
    : problem(problem), prices(prices), above(problem.step.bytes), weight(problem.positions),
      host(std::vector<int64_t>(problem.positions)),
      hostBytes(static_cast<double>(std::min(problem.limits.host, above.most()))),
      aways(problem.gapsOf.size()), indexInValue(problem.gaps.size()), priceNow(problem.gapsOf.size()) {
  above.add({0, problem.positions}, -target);
  for (int64_t p = 0; p < problem.positions; ++p)
    weight[p] = (problem.computing > 0 ? problem.step.seconds[p] / problem.computing : 0) +
                0.2 / static_cast<double>(problem.positions);
  for (int64_t p = 0; p < problem.positions; p += kBlock)
    blockWeights.push_back(
        std::accumulate(weight.begin() + p, weight.begin() + std::min(p + kBlock, problem.positions), 0.0));
  for (const Value &value : problem.step.values)
    if (value.uses.empty())
      host.add({0, problem.positions}, value.bytes);
  for (size_t v = 0; v < aways.size(); ++v) {
    aways[v].resize(problem.gapsOf[v].size());
    for (size_t i = 0; i < aways[v].size(); ++i)
      indexInValue[problem.gapsOf[v][i]] = static_cast<int>(i);
  }
  for (int gap : problem.always)
    set(gap, true);
}

/// Blocks of positions that are all below the target, or all so far above that the whole value counts, are
/// counted as one.
double Choice::gainWithin(Range range, int64_t bytes) const {
  double sum = 0;
  for (int64_t p = range.begin; p < range.end;) {
    int64_t block = p / kBlock, end = std::min((block + 1) * kBlock, range.end);
    if (above.mostOf(block) > 0) {
      if (above.leastOf(block) >= bytes && end - p == kBlock)
        sum += static_cast<double>(bytes) * blockWeights[block];
      else
        sum += above.weighted({p, end}, bytes, weight);
    }
    p = end;
  }
  return sum;
}

template <typename Fn> void Choice::forEachChange(int value, const std::vector<Away> &then, Fn fn) const {
  for (size_t i = 0; i < then.size(); ++i)
    if (then[i].moved() != aways[value][i].moved())
      fn(problem.gaps[problem.gapsOf[value][i]], then[i].moved());
}

/// A float: gaps of equal layers are equal, however their sums are rounded.
float Choice::rate(int gap) {
  constexpr double kTransferAtLeast = 1e-7; // seconds, so that nothing is for free
  int value = problem.gaps[gap].value;
  const std::vector<Away> &then = with(gap, true);
  double gain = 0;
  forEachChange(value, then, [&](const Gap &changed, bool) {
    for (Range range : longestAbsence(changed, problem.positions))
      gain += gainWithin(range, changed.bytes);
  });
  double price = priceOf(value, then) - priceNow[value];
  return static_cast<float>(gain / std::max(price + kTransferAtLeast, kTransferAtLeast));
}

const std::vector<Away> &Choice::with(int gap, bool moved) {
  int value = problem.gaps[gap].value;
  scratch = aways[value];
  scratch[indexInValue[gap]] = moved ? Away{-1, -1, problem.gaps[gap].next} : Away{};
  problem.makeValid(value, scratch, indexInValue[gap]);
  return scratch;
}

double Choice::priceOf(int value, const std::vector<Away> &aways) const {
  double sum = 0;
  for (size_t i = 0; i < aways.size(); ++i) {
    const Gap &gap = problem.gaps[problem.gapsOf[value][i]];
    if (aways[i].moved())
      sum += prices.up[gap.next] * gap.up + (aways[i].dirty() ? prices.down[gap.use] * gap.down : 0);
  }
  if (prices.host > 0) {
    Range range = problem.onHost(value, aways);
    sum += prices.host * problem.computing * static_cast<double>(range.end - range.begin) /
           static_cast<double>(problem.positions) * static_cast<double>(problem.step.values[value].bytes) /
           hostBytes;
  }
  return sum;
}

double Choice::priceOfKeeping(int gap) {
  int value = problem.gaps[gap].value;
  return priceOf(value, with(gap, false)) - priceNow[value];
}

bool Choice::hostHasRoom(int gap) {
  if (problem.limits.host == INT64_MAX)
    return true;
  int value = problem.gaps[gap].value;
  int64_t bytes = problem.gaps[gap].bytes;
  Range now = problem.onHost(value, aways[value]), then = problem.onHost(value, with(gap, true));
  int64_t limit = problem.limits.host - bytes;
  if (now.begin >= now.end)
    return host.firstAbove(then, limit) < 0;
  return host.firstAbove({then.begin, now.begin}, limit) < 0 &&
         host.firstAbove({now.end, then.end}, limit) < 0;
}

/// Whether what moves no longer when the gap is kept leaves the device at or below the target.
bool Choice::deviceHasRoom(int gap) {
  bool room = true;
  forEachChange(problem.gaps[gap].value, with(gap, false), [&](const Gap &changed, bool) {
    for (Range range : longestAbsence(changed, problem.positions))
      room = room && above.firstAbove(range, -changed.bytes) < 0;
  });
  return room;
}

void Choice::set(int gap, bool moved) {
  int value = problem.gaps[gap].value;
  int64_t bytes = problem.gaps[gap].bytes;
  auto take = [&](int64_t sign) { host.add(problem.onHost(value, aways[value]), sign * bytes); };
  std::vector<Away> then = with(gap, moved);
  forEachChange(value, then, [&](const Gap &changed, bool movedThen) {
    for (Range range : longestAbsence(changed, problem.positions))
      above.add(range, movedThen ? -bytes : bytes);
  });
  take(-1);
  aways[value] = std::move(then);
  take(1);
  priceNow[value] = priceOf(value, aways[value]);
}

/// Gains only fall as gaps are moved, so a gap whose gain has been looked at again and is still as good as
/// the largest need not be compared with the others. Only when a move makes its value's other gaps cheaper
/// they are put in anew.
bool Choice::reachTarget(int64_t stays) {
  const double asGood = isLarge(problem) ? kAsGoodInLarge : kAsGood;
  using Rated = std::pair<float, int>;
  auto less = [](const Rated &a, const Rated &b) {
    return a.first != b.first ? a.first < b.first : a.second > b.second;
  };
  std::priority_queue<Rated, std::vector<Rated>, decltype(less)> best(less);
  for (size_t g = 0; g < problem.gaps.size(); ++g)
    if (problem.gaps[g].bytes != stays)
      best.push({rate(static_cast<int>(g)), static_cast<int>(g)});
  // Bytes only fall, so what is before the first position above the target stays below.
  int64_t first = 0;
  while ((first = above.firstAbove({first, problem.positions}, 0)) >= 0) {
    int gap = -1;
    while (!best.empty() && gap < 0) {
      auto [rating, candidate] = best.top();
      best.pop();
      if (aways[problem.gaps[candidate].value][indexInValue[candidate]].moved() || !hostHasRoom(candidate))
        continue;
      float now = rate(candidate);
      if (now <= 0)
        continue;
      if (now < rating && !best.empty() && now < asGood * best.top().first)
        best.push({now, candidate});
      else
        gap = candidate;
    }
    if (gap < 0)
      return false;
    set(gap, true);
    for (int other : problem.neighbours(gap))
      if (other != gap)
        best.push({rate(other), other});
  }
  return true;
}

void Choice::dropNeedless() {
  std::vector<std::pair<double, int>> saved;
  for (int gap : chosen())
    saved.push_back({priceOfKeeping(gap), gap});
  std::sort(saved.begin(), saved.end());
  for (auto [before, gap] : saved)
    if (aways[problem.gaps[gap].value][indexInValue[gap]].moved() && priceOfKeeping(gap) < 0 &&
        deviceHasRoom(gap))
      set(gap, false);
}

std::vector<int> Choice::chosen() const {
  std::vector<int> gaps;
  for (size_t g = 0; g < problem.gaps.size(); ++g)
    if (aways[problem.gaps[g].value][indexInValue[g]].moved())
      gaps.push_back(static_cast<int>(g));
  return gaps;
}

} // namespace

std::optional<std::vector<int>> tessera::tiers::chooseGaps(const Problem &problem, int64_t target,
                                                           const Prices &prices, int64_t stays) {
  Choice choice(problem, target, prices);
  if (!choice.reachTarget(stays))
    return std::nullopt;
  choice.dropNeedless();
  return choice.chosen();
}
