// The time of a step: operators in their order, a queue of transfers in each direction, and the
// host's updates.
#include "passes/Tiers/Tiers.h"
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

using namespace tessera::tiers;

namespace {

/// The moves that something happens to at each position, in the order of the list.
using AtPosition = std::vector<std::vector<size_t>>;

/// A queue of transfers in one direction.
struct Link {
  double bytesPerSecond, latency;
  double free = 0;
  /// The end of a transfer that may begin at `now`, or of so many, one in each turn.
  double transfer(double now, int64_t bytes, int64_t times) {
    double once = latency + static_cast<double>(bytes) / bytesPerSecond;
    return free = std::max(free, now) + once * static_cast<double>(times);
  }
};

} // namespace

double tessera::tiers::simulate(const Step &step, const std::vector<Move> &moves, const Rates &rates) {
  size_t n = step.seconds.size();
  AtPosition offloads(n + 1), gone(n + 1), updates(n + 1), prefetches(n + 1), uses(n + 1);
  for (size_t i = 0; i < moves.size(); ++i) {
    const Move &move = moves[i];
    const Value &value = step.values[move.value];
    if (move.offload >= 0) {
      offloads[move.offload].push_back(i);
      gone[move.gone].push_back(i);
    }
    if (value.sinks(move.gap)) {
      updates[updateBegins(step, value, move.offload < 0 ? value.uses[move.gap].position + 1 : move.gone)]
          .push_back(i);
      continue;
    }
    prefetches[move.prefetch].push_back(i);
    uses[value.uses[(move.gap + 1) % value.uses.size()].position].push_back(i);
  }

  Link down{rates.bytesDown, rates.latency}, up{rates.bytesUp, rates.latency};
  std::vector<double> downEnd(moves.size()), upEnd(moves.size());
  double now = 0, host = step.converting;
  double forTurns = madeForTurns(step);
  bool updatesAny = std::any_of(step.updates.begin(), step.updates.end(),
                                [](const Update &update) { return update.onHost; });
  for (size_t p = 0; p <= n; ++p) {
    int64_t times = step.loop.timesAt(static_cast<int64_t>(p));
    for (size_t i : offloads[p])
      downEnd[i] = down.transfer(now, step.values[moves[i].value].bytes, times);
    if (updatesAny && static_cast<int64_t>(p) == step.norm)
      now = down.transfer(now, 0, 1);
    for (size_t i : gone[p])
      now = std::max(now, downEnd[i]);
    for (size_t i : updates[p])
      host = std::max(host, now) + step.updates[step.values[moves[i].value].sinksInto].seconds;
    if (static_cast<int64_t>(p) == step.loop.begin)
      now = std::max(now, forTurns);
    for (size_t i : prefetches[p]) {
      const Value &value = step.values[moves[i].value];
      now = std::max(now, value.made);
      upEnd[i] = up.transfer(now, value.bytes, times);
    }
    for (size_t i : uses[p])
      now = std::max(now, upEnd[i]);
    if (p < n)
      now += step.seconds[p];
  }
  return std::max(now, host);
}

Plan tessera::tiers::judge(const Step &step, std::vector<Move> moves, const Rates &rates) {
  auto peak = [](const std::vector<int64_t> &bytes) {
    return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
  };
  Plan plan;
  plan.devicePeak = peak(deviceBytes(step, moves));
  plan.hostPeak = peak(hostBytes(step, moves));
  plan.seconds = simulate(step, moves, rates);
  for (const Move &move : moves) {
    const Value &value = step.values[move.value];
    plan.bytesUp += value.sinks(move.gap) ? 0 : step.loop.timesAt(move.prefetch) * value.bytes;
    plan.bytesDown += move.offload < 0 ? 0 : step.loop.timesAt(move.offload) * value.bytes;
  }
  plan.moves = std::move(moves);
  return plan;
}
