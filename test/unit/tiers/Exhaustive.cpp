#include "Exhaustive.h"
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <tuple>
#include <vector>

using namespace tessera::tiers;

namespace {

using Bytes = std::vector<int64_t>; // by position

class Trier {
public:
  Trier(const Step &step, const Limits &limits, const Rates &rates, double bound, int64_t tries)
      : best(bound), left(tries), step(step), limits(limits), rates(rates),
        n(static_cast<int64_t>(step.seconds.size())),
        computing(std::accumulate(step.seconds.begin(), step.seconds.end(), 0.0)) {}
  /// `device` is what is taken if all gaps not decided on yet are as long as can be.
  void tryValue(size_t v, const Bytes &device);
  Bytes least() const;
  double best;
  int64_t left;
  std::vector<Move> bestMoves;

private:
  struct At { // a gap
    size_t value;
    int gap;
  };
  void tryGap(At at, unsigned subset, bool valid, const Bytes &device);
  void tryMoves(At at, unsigned subset, bool valid, const Bytes &device);
  void tryMove(At at, unsigned subset, const Move &move, const Bytes &device);
  /// Whether the gap's value is away at p if it is as long as can be.
  bool mayLeave(At at, int64_t p) const;
  std::tuple<int64_t, int, int> order(const Move &move) const {
    const auto &uses = step.values[move.value].uses;
    return {uses[(move.gap + 1) % uses.size()].position, move.value, move.gap};
  }
  bool fits(const Bytes &device) const {
    return std::all_of(device.begin(), device.end(), [&](int64_t bytes) { return bytes <= limits.device; });
  }

  const Step &step;
  Limits limits;
  Rates rates;
  int64_t n;
  double computing;
  std::vector<Move> moves; // in their order
};

bool Trier::mayLeave(At at, int64_t p) const {
  const auto &uses = step.values[at.value].uses;
  int64_t use = uses[at.gap].position;
  if (at.gap + 1 == static_cast<int>(uses.size()))
    return p > use || p < uses[0].position;
  return use < p && p < uses[at.gap + 1].position;
}

Bytes Trier::least() const {
  Bytes device = step.bytes;
  for (size_t v = 0; v < step.values.size(); ++v) {
    const Value &value = step.values[v];
    for (int gap = 0; gap < static_cast<int>(value.uses.size()) - (value.rests ? 0 : 1); ++gap)
      for (int64_t p = 0; p < n; ++p)
        device[p] -= mayLeave({v, gap}, p) ? value.bytes : 0;
  }
  return device;
}

void Trier::tryValue(size_t v, const Bytes &device) {
  Bytes host = hostBytes(step, moves);
  if (*std::max_element(host.begin(), host.end()) > limits.host)
    return;
  if (v == step.values.size()) {
    best = simulate(step, moves, rates);
    bestMoves = moves;
    return;
  }
  const Value &value = step.values[v];
  int gaps = static_cast<int>(value.uses.size()) - (value.rests ? 0 : 1);
  for (unsigned subset = 0; subset < 1u << gaps; ++subset) {
    bool below = value.rests && (subset >> (gaps - 1) & 1);
    // Where it rests on the device it has its place there for good.
    if (value.rests && !below && (subset != 0 || value.below))
      continue;
    tryGap({v, 0}, subset, below, device);
  }
}

void Trier::tryGap(At at, unsigned subset, bool valid, const Bytes &device) {
  const Value &value = step.values[at.value];
  if (at.gap == static_cast<int>(value.uses.size()) - (value.rests ? 0 : 1))
    return tryValue(at.value + 1, device);
  valid = valid && !value.uses[at.gap].writes;
  if (subset >> at.gap & 1)
    return tryMoves(at, subset, valid, device);
  Bytes kept = device;
  for (int64_t p = 0; p < n; ++p)
    kept[p] += mayLeave(at, p) ? value.bytes : 0;
  if (fits(kept))
    tryGap({at.value, at.gap + 1}, subset, valid, kept);
}

void Trier::tryMoves(At at, unsigned subset, bool valid, const Bytes &device) {
  const Value &value = step.values[at.value];
  int uses = static_cast<int>(value.uses.size()), v = static_cast<int>(at.value);
  bool round = at.gap + 1 == uses;
  int64_t use = value.uses[at.gap].position, next = value.uses[(at.gap + 1) % uses].position;
  int64_t end = round ? n : next;
  for (int64_t offload = valid ? -1 : use + 1; offload <= (valid ? -1 : end); ++offload)
    for (int64_t gone = offload; gone <= (valid ? -1 : end); ++gone)
      for (int64_t prefetch = round ? 0 : valid ? use + 1 : gone; prefetch <= next; ++prefetch)
        tryMove(at, subset, {v, at.gap, offload, gone, prefetch}, device);
}

void Trier::tryMove(At at, unsigned subset, const Move &move, const Bytes &device) {
  if (left <= 0 || best <= computing)
    return;
  const Value &value = step.values[at.value];
  bool round = at.gap + 1 == static_cast<int>(value.uses.size());
  int64_t gone = move.offload < 0 ? value.uses[at.gap].position + 1 : move.gone;
  Bytes moved = device;
  for (int64_t p = 0; p < n; ++p) {
    bool away = round ? p >= gone || p < move.prefetch : gone <= p && p < move.prefetch;
    moved[p] += mayLeave(at, p) && !away ? value.bytes : 0;
  }
  if (!fits(moved))
    return;
  auto place =
      std::find_if(moves.begin(), moves.end(), [&](const Move &other) { return order(move) < order(other); });
  auto index = place - moves.begin();
  moves.insert(place, move);
  --left;
  if (simulate(step, moves, rates) < best)
    tryGap({at.value, at.gap + 1}, subset, true, moved);
  moves.erase(moves.begin() + index);
}

} // namespace

Optimum tessera::tiers::exhaustive(const Step &step, const Limits &limits, const Rates &rates, double bound,
                                   int64_t tries) {
  Trier trier(step, limits, rates, bound, tries);
  trier.tryValue(0, trier.least());
  return {trier.best, trier.left > 0, trier.bestMoves};
}
