// Small changes of a plan, by the two exact judges.
#include "passes/Tiers/Draft.h"
#include "passes/Tiers/Gaps.h"
#include "passes/Tiers/Search.h"
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

using namespace tessera::tiers;

namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();
/// How much a second of transfers that nobody waits for counts, beside a second of the step.
constexpr double kIdleTransfer = 1e-3;
/// After so many tries the transfers that are waited for are looked up anew.
constexpr int64_t kLookUp = 64;

class Flips {
public:
  Flips(Draft &draft, uint64_t seed)
      : draft(draft), problem(draft.problem()), random(seed),
        count(static_cast<int64_t>(problem.gaps.size())) {}

  void anneal(int64_t tries);
  bool repair(int64_t tries);

private:
  int64_t below(int64_t limit) { return static_cast<int64_t>(random() % static_cast<uint64_t>(limit)); }
  double chance() { return static_cast<double>(random() >> 11) * 0x1p-53; }
  /// 1, 2, 4, ... each half as likely, to either side.
  int64_t distance();
  int anyMoved();
  int interesting();
  int overlapping(int64_t position, bool moved);
  void lookUpStalls();

  void propose();
  void shift(int gap);
  void toggle(int gap);
  void makeUp(int gap);
  void swap(int gap);
  void redo(int gap);
  void makeRoom(int gap);
  void placeAgain(int gap);

  double cost() const { return draft.seconds() + kIdleTransfer * (draft.down() + draft.up()); }

  Draft &draft;
  const Problem &problem;
  std::mt19937_64 random;
  int64_t count;
  std::vector<int> stalled; // gaps whose transfers are waited for
};

int64_t Flips::distance() {
  int64_t length = 1;
  while (length < problem.positions && below(2) == 0)
    length *= 2;
  return below(2) == 0 ? length : -length;
}

int Flips::anyMoved() {
  int64_t start = below(count);
  for (int64_t i = 0; i < count; ++i) {
    auto gap = static_cast<int>((start + i) % count);
    if (draft.away(gap).moved())
      return gap;
  }
  return static_cast<int>(start);
}

/// One that is waited for, one near it in the order of the queue, or any.
int Flips::interesting() {
  if (stalled.empty() || below(3) == 0)
    return anyMoved();
  int gap = stalled[below(static_cast<int64_t>(stalled.size()))];
  if (below(2) == 0)
    return gap;
  return static_cast<int>(std::clamp<int64_t>(gap + distance(), 0, count - 1));
}

void Flips::lookUpStalls() {
  stalled.clear();
  for (int64_t g = 0; g < count; ++g) {
    const Away &away = draft.aways()[g];
    auto gap = static_cast<int>(g);
    bool isLate = !problem.gaps[g].sinks && draft.upEnd(gap) > draft.moment(problem.gaps[g].next).now;
    if (away.moved() && (isLate || (away.dirty() && draft.downEnd(gap) > draft.moment(away.gone).now)))
      stalled.push_back(gap);
  }
}

/// A gap with that position in it; -1 if a few tries find none.
int Flips::overlapping(int64_t position, bool moved) {
  for (int64_t tries = std::min<int64_t>(2 * count, 32); tries > 0; --tries) {
    int64_t g = below(count);
    if (draft.aways()[g].moved() != moved)
      continue;
    for (Range range : longestAbsence(problem.gaps[g], problem.positions))
      if (range.begin <= position && position < range.end)
        return static_cast<int>(g);
  }
  return -1;
}

void Flips::placeAgain(int g) {
  const Gap &gap = problem.gaps[g];
  Away away = draft.away(g);
  int64_t offload = away.dirty() ? gap.use + 1 : -1;
  draft.change(g, {offload, offload, gap.next});
  constexpr double kEarly[] = {0, 1, 1.02, 1.5, 2, 4, 16};
  draft.change(g, placed(draft, g, kEarly[below(std::size(kEarly))]));
}

void Flips::toggle(int gap) {
  if (draft.away(gap).moved()) {
    draft.change(gap, {});
    return;
  }
  draft.change(gap, {-1, -1, problem.gaps[gap].next});
  placeAgain(gap);
}

void Flips::shift(int g) {
  const Gap &gap = problem.gaps[g];
  Away away = draft.away(g);
  if (!away.moved())
    return toggle(g);
  if (below(5) == 0)
    return placeAgain(g);
  if (gap.sinks && !away.dirty())
    return;
  int64_t kind = gap.sinks ? 2 + below(3) : away.dirty() ? below(5) : 0;
  int64_t by = distance();
  int64_t last = gap.round ? gap.end : std::min(gap.end, away.prefetch);
  if (kind <= 1)
    away.prefetch = std::clamp(away.prefetch + by, Problem::firstPrefetch(gap, away), gap.next);
  else if (kind <= 3)
    away.gone = std::clamp(away.gone + by, away.offload, last);
  else
    away.offload = std::clamp(away.offload + by, gap.use + 1, away.gone);
  draft.change(g, away);
}

/// Moves others until all fits again.
void Flips::makeUp(int gap) {
  for (int tries = 0; tries < 3 && !draft.fits(); ++tries) {
    int64_t position = draft.above();
    int other = position < 0 ? -1 : overlapping(position, false);
    if (other < 0 || other == gap)
      return;
    toggle(other);
  }
}

/// Keeps one and moves others that make up for it, or the other way round.
void Flips::swap(int gap) {
  bool moved = draft.away(gap).moved();
  toggle(gap);
  if (moved)
    return makeUp(gap);
  Range range = longestAbsence(problem.gaps[gap], problem.positions)[0];
  if (range.begin >= range.end)
    return;
  int other = overlapping(range.begin + below(range.end - range.begin), true);
  if (other >= 0 && other != gap)
    draft.change(other, {});
}

/// Moves any of the gaps of a value: one alone may cost what two together save, where a copy is valid for
/// both.
void Flips::redo(int gap) {
  for (int other : problem.neighbours(gap))
    if (below(2) == 0)
      toggle(other);
  makeUp(gap);
}

/// Gives a transfer time where another one has the memory.
void Flips::makeRoom(int gap) {
  shift(gap);
  for (int tries = 0; tries < 3 && !draft.fits(); ++tries) {
    int64_t position = draft.above();
    int other = position < 0 ? -1 : overlapping(position, true);
    if (other < 0 || other == gap)
      return;
    const Gap &of = problem.gaps[other];
    Away away = draft.away(other);
    // Of the two windows that which holds the position is closed behind or before it.
    bool offloading = away.dirty() && of.use < position && position < away.gone;
    if (offloading) {
      away.gone = position;
      away.offload = std::min(away.offload, position);
    } else {
      away.prefetch = std::min(position + 1, of.next);
    }
    draft.change(other, away);
  }
}

void Flips::propose() {
  int gap = below(4) == 0 ? static_cast<int>(below(count)) : interesting();
  switch (below(8)) {
  case 0:
    return toggle(gap);
  case 1:
  case 2:
    return swap(gap);
  case 3:
    return redo(gap);
  case 4:
  case 5:
    return makeRoom(gap);
  default:
    return shift(gap);
  }
}

void Flips::anneal(int64_t tries) {
  // A change of one of many moves is worth little beside the whole.
  const double hottest = 1.0 / static_cast<double>(count + 5), coldest = hottest * 1e-3;
  std::vector<Away> best = draft.aways();
  double bestSeconds = draft.seconds(), bestCost = cost();
  for (int64_t i = 0; i < tries; ++i) {
    if (i % kLookUp == 0)
      lookUpStalls();
    double heat = bestSeconds * hottest *
                  std::pow(coldest / hottest, static_cast<double>(i) / static_cast<double>(tries));
    double bound = cost() - heat * std::log(1 - chance());
    propose();
    if (!draft.fits() || draft.simulate(bound) == kForever || cost() > bound) {
      draft.undo();
      continue;
    }
    draft.keep();
    if (draft.seconds() < bestSeconds || (draft.seconds() == bestSeconds && cost() < bestCost)) {
      bestSeconds = draft.seconds();
      bestCost = cost();
      best = draft.aways();
    }
  }
  draft.load(best);
  draft.simulate(kForever);
  draft.keep();
}

bool Flips::repair(int64_t tries) {
  int64_t excess = draft.excess();
  for (int64_t i = 0; i < tries && excess > 0; ++i) {
    auto gap = static_cast<int>(below(count));
    toggle(gap);
    if (below(2) == 0)
      toggle(static_cast<int>(below(count)));
    if (int64_t after = draft.excess(); after <= excess) {
      draft.keep();
      excess = after;
    } else {
      draft.undo();
    }
  }
  return excess == 0;
}

} // namespace

void tessera::tiers::flip(Draft &draft, int64_t tries, uint64_t seed) {
  if (!draft.aways().empty())
    Flips(draft, seed).anneal(tries);
}

bool tessera::tiers::repair(Draft &draft, int64_t tries, uint64_t seed) {
  return draft.aways().empty() ? draft.excess() == 0 : Flips(draft, seed).repair(tries);
}
