// Which transfers make a step as long as it is: the critical path method, from the end of the step.
#include "passes/Tiers/Draft.h"
#include "passes/Tiers/Gaps.h"
#include "passes/Tiers/Search.h"
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

using namespace tessera::tiers;

namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();
/// Parts of the step: how far from a position is looked, and how much later a transfer may end to count
/// 1/e.
constexpr double kBefore = 0.02, kLoose = 0.005;

/// One link's transfers in the order of its queue.
struct Transfer {
  int gap;
  int64_t start, wait;
  double end, seconds;
  double latestEnd = kForever;
};

struct Link {
  std::vector<Transfer> queue;
  /// From the last transfer to the first, how late each could begin.
  void latestOfQueue(size_t i, double waited, double &latestBegin) {
    queue[i].latestEnd = std::min(waited, latestBegin);
    latestBegin = queue[i].latestEnd - queue[i].seconds;
  }
};

} // namespace

Prices tessera::tiers::pressure(const Draft &draft, bool downBehind) {
  const Problem &problem = draft.problem();
  int64_t n = problem.positions;
  Link down, up;
  for (size_t g = 0; g < problem.gaps.size(); ++g) {
    const Gap &gap = problem.gaps[g];
    const Away &away = draft.aways()[g];
    int index = static_cast<int>(g);
    if (away.moved() && !gap.sinks)
      up.queue.push_back({index, away.prefetch, gap.next, draft.upEnd(index), gap.up});
    if (away.dirty())
      down.queue.push_back({index, away.offload, away.gone, draft.downEnd(index), gap.down});
  }
  auto byStart = [](const Transfer &a, const Transfer &b) {
    return std::pair(a.start, a.gap) < std::pair(b.start, b.gap);
  };
  std::sort(up.queue.begin(), up.queue.end(), byStart);
  std::sort(down.queue.begin(), down.queue.end(), byStart);

  // latest[p]: how late computing may come through what happens at p. Behind it the operator.
  std::vector<double> afterUses(n + 1), afterGone(n + 1);
  double now = draft.seconds(), upBegin = kForever, downBegin = kForever;
  size_t ups = up.queue.size(), downs = down.queue.size();
  for (int64_t p = n; p >= 0; --p) {
    afterUses[p] = now;
    for (; ups > 0 && up.queue[ups - 1].start == p; --ups) {
      up.latestOfQueue(ups - 1, afterUses[up.queue[ups - 1].wait], upBegin);
      now = std::min(now, upBegin);
    }
    afterGone[p] = now;
    for (; downs > 0 && down.queue[downs - 1].start == p; --downs) {
      down.latestOfQueue(downs - 1, afterGone[down.queue[downs - 1].wait], downBegin);
      now = std::min(now, downBegin);
    }
    if (p > 0)
      now -= problem.step.seconds[p - 1];
  }

  auto byPosition = [&](const Link &link, bool behind) {
    // Of the time up to each end of a transfer, how much was critical.
    std::vector<std::pair<double, double>> integral = {{0, 0}};
    for (const Transfer &transfer : link.queue) {
      double before = integral.back().second;
      double weight =
          std::exp(-std::max(0.0, transfer.latestEnd - transfer.end) / (kLoose * draft.seconds()));
      integral.push_back({transfer.end - transfer.seconds, before});
      integral.push_back({transfer.end, before + weight * transfer.seconds});
    }
    auto at = [&](double time) {
      auto next = std::upper_bound(integral.begin(), integral.end(), std::pair(time, kForever));
      auto [t0, v0] = *(next - 1);
      if (next == integral.end() || next->first <= t0)
        return v0;
      return v0 + (next->second - v0) * (time - t0) / (next->first - t0);
    };
    std::vector<double> result(n + 1);
    double window = kBefore * draft.seconds();
    for (int64_t p = 0; p <= n; ++p) {
      double end = behind ? draft.moment(std::min(p + 1, n)).now + window : draft.moment(p).now;
      result[p] = window > 0 ? (at(end) - at(std::max(0.0, end - window))) / window : 0;
    }
    return result;
  };
  return {byPosition(down, downBehind), byPosition(up, false), 0};
}
