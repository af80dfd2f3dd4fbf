// When the transfers of moves that have been chosen start, and when they are waited for.
#include "passes/Tiers/Draft.h"
#include "passes/Tiers/Gaps.h"
#include "passes/Tiers/Search.h"
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

using namespace tessera::tiers;

namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();
constexpr int kRounds = 3;
constexpr double kSlack = 1.02; // of a prefetch's time

Away shortest(const Gap &gap, const Away &away) {
  int64_t offload = away.dirty() ? gap.use + 1 : -1;
  return {offload, offload, gap.next};
}

/// The position at which an offload that ends then is best waited for: at its end, or where memory is needed
/// before.
int64_t goneAt(const Draft &draft, const Gap &gap, int64_t from, int64_t to, double end) {
  int64_t limit = draft.problem().limits.device - gap.bytes;
  while (from < to && draft.moment(from).now < end && draft.device()[from] <= limit)
    ++from;
  return from;
}

/// The last position from which a prefetch that begins at `start` is in time, or the first that has memory
/// for it and, of what the host makes, waits for nothing.
int64_t prefetchAt(const Draft &draft, const Gap &gap, int64_t from, int64_t to, double start) {
  int64_t limit = draft.problem().limits.device - gap.bytes;
  while (to > from && draft.moment(to).now > start && draft.moment(to - 1).now >= gap.made &&
         draft.device()[to - 1] <= limit)
    --to;
  return to;
}

void placeOffloads(Draft &draft) {
  const Problem &problem = draft.problem();
  std::vector<int> order;
  for (size_t g = 0; g < problem.gaps.size(); ++g)
    if (draft.aways()[g].dirty())
      order.push_back(static_cast<int>(g));
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return std::pair(problem.gaps[a].use, a) < std::pair(problem.gaps[b].use, b);
  });
  double free = 0;
  for (int g : order) {
    const Gap &gap = problem.gaps[g];
    Away away = draft.away(g);
    free = std::max(free, draft.moment(away.offload).now) + gap.down;
    int64_t last = gap.round ? gap.end : std::min(gap.end, away.prefetch);
    away.gone = goneAt(draft, gap, away.gone, last, free);
    draft.change(g, away);
  }
}

void placePrefetches(Draft &draft) {
  const Problem &problem = draft.problem();
  double before = kForever; // when the prefetch behind begins
  for (size_t g = problem.gaps.size(); g-- > 0;) {
    const Gap &gap = problem.gaps[g];
    Away away = draft.away(static_cast<int>(g));
    if (!away.moved() || gap.sinks)
      continue;
    double start = std::min(before, draft.moment(gap.next).now) - kSlack * gap.up;
    away.prefetch = prefetchAt(draft, gap, Problem::firstPrefetch(gap, away), gap.next, start);
    draft.change(static_cast<int>(g), away);
    before = std::max(start, draft.moment(away.prefetch).now);
  }
}

} // namespace

void tessera::tiers::move(Draft &draft, const std::vector<int> &gaps) {
  std::vector<bool> moved(draft.aways().size());
  for (int gap : gaps)
    moved[gap] = true;
  for (size_t g = 0; g < moved.size(); ++g)
    if (!moved[g] && draft.aways()[g].moved())
      draft.change(static_cast<int>(g), {});
  for (int gap : gaps)
    if (!draft.away(gap).moved())
      draft.change(gap, {-1, -1, draft.problem().gaps[gap].next});
  for (int gap : gaps)
    draft.change(gap, shortest(draft.problem().gaps[gap], draft.away(gap)));
}

void tessera::tiers::placeTransfers(Draft &draft) {
  std::vector<Away> best;
  double bestSeconds = kForever;
  for (bool offloadsFirst : {true, false})
    for (int round = 0; round < kRounds; ++round) {
      for (size_t g = 0; g < draft.aways().size(); ++g)
        if (draft.aways()[g].moved())
          draft.change(static_cast<int>(g), shortest(draft.problem().gaps[g], draft.aways()[g]));
      if (offloadsFirst)
        placeOffloads(draft);
      placePrefetches(draft);
      if (!offloadsFirst)
        placeOffloads(draft);
      double seconds = draft.simulate(kForever);
      draft.keep();
      if (seconds < bestSeconds) {
        bestSeconds = seconds;
        best = draft.aways();
      }
    }
  draft.load(best);
  draft.simulate(kForever);
  draft.keep();
}

Away tessera::tiers::placed(const Draft &draft, int g, double early) {
  const Gap &gap = draft.problem().gaps[g];
  Away away = shortest(gap, draft.away(g));
  if (away.dirty()) {
    const Moment &at = draft.moment(away.offload);
    away.gone = goneAt(draft, gap, away.gone, gap.end, std::max(at.now, at.down) + gap.down);
  }
  if (!gap.sinks)
    away.prefetch = prefetchAt(draft, gap, Problem::firstPrefetch(gap, away), gap.next,
                               draft.moment(gap.next).now - early * gap.up);
  return away;
}
