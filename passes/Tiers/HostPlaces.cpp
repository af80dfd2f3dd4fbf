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

/// The first position at which a conversion's result starts to come up.
int64_t firstPrefetch(const Step &step, const Conversion &conversion, const std::vector<Move> &moves) {
  auto first = static_cast<int64_t>(step.seconds.size());
  for (const Move &move : moves)
    if (move.value == conversion.results.front())
      first = std::min(first, move.prefetch);
  return first;
}

/// From the last that is needed to the first, none behind the first update.
void startLate(const Step &step, const std::vector<Move> &moves, const std::vector<double> &clock,
               int64_t position, std::vector<int64_t> &starts) {
  std::vector<size_t> order;
  for (size_t i = 0; i < step.conversions.size(); ++i)
    if (step.conversions[i].onHost)
      order.push_back(i);
  auto made = [&](size_t i) { return step.values[step.conversions[i].results.front()].made; };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return made(a) > made(b); });
  double begin = clock[position];
  for (size_t i : order) {
    const Conversion &conversion = step.conversions[i];
    int64_t needed = firstPrefetch(step, conversion, moves);
    begin = std::min(begin, clock[needed]) - kSlack * conversion.seconds;
    position = std::min(position, needed);
    while (position > 0 && clock[position] > begin)
      --position;
    starts[i] = position;
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
  std::vector<double> clock = timeline(step, judge(step, moves, rates), rates);
  auto n = static_cast<int64_t>(step.seconds.size());
  int64_t first = places.queue.empty() ? n : places.begins[places.queue.front()];
  startLate(step, moves, clock, first, places.conversions);
  double host = step.converting;
  for (int update : places.queue) {
    int64_t position = places.begins[update];
    // Behind all that is waited for at this position.
    double now = position < n ? clock[position + 1] - step.seconds[position] : clock[n];
    int64_t begin = position;
    while (begin < n && clock[begin + 1] <= host)
      ++begin;
    host = std::max(host, now) + step.updates[update].seconds;
    int64_t end = std::min(begin + 1, n);
    while (end < n && clock[end] < host)
      ++end;
    places.begins[update] = begin;
    places.ends[update] = end;
  }
  return places;
}
