#include "passes/Tiers/HostPlaces.h"
#include "passes/Tiers/Tiers.h"
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

using namespace tessera::tiers;

namespace {

/// Of a conversion's time, for the clock is an estimate.
constexpr double kSlack = 1.1;

/// The positions at which updates begin, in the order of the host's queue.
std::vector<std::pair<int64_t, int>> beginnings(const Step &step, const std::vector<Move> &moves) {
  std::vector<std::pair<int64_t, int>> list;
  for (const Move &move : moves)
    if (const Value &value = step.values[move.value]; value.sinks(move.gap)) {
      int64_t gone = move.offload < 0 ? value.uses[move.gap].position + 1 : move.gone;
      list.push_back({updateBegins(step, value, gone), value.sinksInto});
    }
  std::stable_sort(list.begin(), list.end(), [](auto &a, auto &b) { return a.first < b.first; });
  return list;
}

/// What the host does starts and is waited for outside of the loop.
int64_t before(const Step &step, int64_t position) {
  return step.loop.has(position) ? step.loop.begin : position;
}
int64_t behind(const Step &step, int64_t position) {
  return step.loop.has(position) ? step.loop.end + 1 : position;
}

/// The first position at which a conversion's result starts to come up, or the loop in whose turns it does.
int64_t firstPrefetch(const Step &step, const Conversion &conversion, const std::vector<Move> &moves) {
  auto first = static_cast<int64_t>(step.seconds.size());
  for (const Move &move : moves)
    if (move.value == conversion.results.front())
      first = std::min(first, move.prefetch);
  return before(step, first);
}

/// When a plan's step comes to its positions.
struct Clock {
  const Step &step;
  std::vector<double> at; // each position
  int64_t end;
  double done; // all but the host's updates

  Clock(const Step &step, const std::vector<Move> &moves, const Rates &rates)
      : step(step), at(timeline(step, judge(step, moves, rates), rates)),
        end(static_cast<int64_t>(step.seconds.size())) {
    Step free = step;
    for (Update &update : free.updates)
      update.seconds = 0;
    done = simulate(free, moves, rates);
  }
  /// Behind all that is waited for at the position.
  double started(int64_t p) const { return p < end ? at[p + 1] - step.seconds[p] : done; }
};

/// From the last that is needed to the first, none behind the first update, which is at `position`.
void startLate(const Clock &clock, const std::vector<Move> &moves, int64_t position,
               std::vector<int64_t> &starts) {
  const Step &step = clock.step;
  std::vector<size_t> order;
  for (size_t i = 0; i < step.conversions.size(); ++i)
    if (step.conversions[i].onHost)
      order.push_back(i);
  auto made = [&](size_t i) { return step.values[step.conversions[i].results.front()].made; };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return made(a) > made(b); });
  double begin = clock.at[position];
  for (size_t i : order) {
    const Conversion &conversion = step.conversions[i];
    int64_t needed = firstPrefetch(step, conversion, moves);
    begin = std::min(begin, clock.at[needed]) - kSlack * conversion.seconds;
    position = std::min(position, needed);
    while (position > 0 && clock.started(position) > begin)
      --position;
    starts[i] = position = before(step, position);
  }
}

} // namespace

HostPlaces tessera::tiers::widePlaces(const Step &step, const std::vector<Move> &moves) {
  HostPlaces places;
  auto n = static_cast<int64_t>(step.seconds.size());
  for (const Conversion &conversion : step.conversions)
    places.conversions.push_back(conversion.onHost ? 0 : -1);
  for (const Update &update : step.updates)
    places.ends.push_back(update.onHost ? n : -1);
  places.begins.assign(step.updates.size(), -1);
  for (auto [position, update] : beginnings(step, moves)) {
    places.begins[update] = position;
    places.queue.push_back(update);
  }
  return places;
}

HostPlaces tessera::tiers::closePlaces(const Step &step, const std::vector<Move> &moves, const Rates &rates) {
  HostPlaces places = widePlaces(step, moves);
  Clock clock(step, moves, rates);
  int64_t n = clock.end, first = places.queue.empty() ? n : places.begins[places.queue.front()];
  startLate(clock, moves, first, places.conversions);
  // When the host has done what is before, at the earliest and at the latest: an update begins somewhere
  // between the waits of its position.
  double early = step.converting, late = step.converting;
  for (int update : places.queue) {
    int64_t position = places.begins[update], begin = position;
    while (begin < n && clock.started(begin + 1) <= early)
      ++begin;
    begin = std::max(position, before(step, begin));
    early = std::max(early, clock.at[position]) + step.updates[update].seconds;
    late = std::max(late, clock.started(position)) + step.updates[update].seconds;
    int64_t end = std::min(begin + 1, n);
    while (end < n && clock.at[end] < late)
      ++end;
    places.begins[update] = begin;
    places.ends[update] = behind(step, end);
  }
  return places;
}
