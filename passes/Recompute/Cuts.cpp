// See Cuts.h.
#include "passes/Recompute/Cuts.h"
#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>

using namespace tessera::recompute;

namespace {

/// So many places are considered at most.
constexpr size_t kPlaces = 256;
/// Of the time of all operators that may run again, the cheapest of which are tried by themselves.
constexpr std::array kShares = {0.2, 0.5};
/// The limit of the largest part falls by this factor from try to try.
constexpr double kFall = 0.85;

/// What crosses each cut.
std::vector<int64_t> crossing(const std::vector<Operator> &forward) {
  auto n = static_cast<int64_t>(forward.size());
  std::vector<int64_t> bytes(n + 2);
  for (int64_t p = 0; p < n; ++p)
    for (const Value &value : forward[p].values)
      if (value.lastForward > p) {
        bytes[p + 1] += value.bytes;
        bytes[value.lastForward + 1] -= value.bytes;
      }
  for (int64_t p = 1; p <= n; ++p)
    bytes[p] += bytes[p - 1];
  return bytes;
}

/// Where to cut: the beginnings of stretches that less crosses than what is around them; and both ends. Of
/// too many the one that the fewest bytes cross in each of as many runs of them as there may be: the fewest
/// of all would be at one end, where a little more or less crosses.
std::vector<int64_t> places(const std::vector<Operator> &forward) {
  auto n = static_cast<int64_t>(forward.size());
  std::vector<int64_t> bytes = crossing(forward), list;
  for (int64_t p = 1; p < n; ++p) {
    int64_t next = p;
    while (next < n && bytes[next] == bytes[p])
      ++next;
    if (bytes[p] < bytes[p - 1] && (next == n || bytes[next] > bytes[p]))
      list.push_back(p);
    p = next - 1;
  }
  if (list.size() > kPlaces) {
    const size_t all = list.size();
    for (size_t i = 0; i < kPlaces; ++i)
      list[i] = *std::min_element(list.begin() + i * all / kPlaces, list.begin() + (i + 1) * all / kPlaces,
                                  [&](int64_t a, int64_t b) { return bytes[a] < bytes[b]; });
    list.resize(kPlaces);
  }
  list.insert(list.begin(), 0);
  list.push_back(n);
  return list;
}

/// Of the part between two places: what newly crosses its end, and the other bytes that the backward uses.
struct Part {
  int64_t kept = 0, used = 0;
};

class Program {
public:
  Program(const std::vector<Operator> &forward, std::vector<int64_t> places);
  int64_t most() const { return parts[0].back().used; }
  std::optional<Cuts> within(int64_t limit) const;

private:
  std::vector<int64_t> places;
  std::vector<std::vector<Part>> parts; // by first place, by last place
};

Program::Program(const std::vector<Operator> &forward, std::vector<int64_t> given)
    : places(std::move(given)), parts(places.size(), std::vector<Part>(places.size())) {
  for (size_t end = 1; end < places.size(); ++end) {
    Part sum;
    size_t begin = end;
    for (int64_t p = places[end] - 1; p >= 0; --p) {
      for (const Value &value : forward[p].values)
        if (value.lastForward >= places[end])
          sum.kept += value.bytes;
        else if (value.late && forward[p].repeatable)
          sum.used += value.bytes;
      if (p == places[begin - 1])
        parts[--begin][end] = sum;
    }
  }
}

/// The least that is kept where no part has more than `limit`.
std::optional<Cuts> Program::within(int64_t limit) const {
  size_t last = places.size() - 1;
  std::vector<int64_t> kept(places.size(), -1);
  std::vector<size_t> before(places.size());
  kept[0] = 0;
  for (size_t end = 1; end <= last; ++end)
    for (size_t begin = 0; begin < end; ++begin) {
      const Part &part = parts[begin][end];
      int64_t sum = kept[begin] + part.kept;
      if (kept[begin] >= 0 && part.used <= limit && (kept[end] < 0 || sum < kept[end]))
        kept[end] = sum, before[end] = begin;
    }
  if (kept[last] < 0)
    return std::nullopt;
  Cuts cuts;
  cuts.kept = kept[last];
  for (size_t at = last; at > 0; at = before[at]) {
    cuts.largest = std::max(cuts.largest, parts[before[at]][at].used);
    if (before[at] > 0)
      cuts.positions.insert(cuts.positions.begin(), places[before[at]]);
  }
  return cuts;
}

} // namespace

Cuts tessera::recompute::chooseCuts(const std::vector<Operator> &forward) {
  if (forward.empty())
    return {};
  Program program(forward, places(forward));
  Cuts best;
  best.largest = program.most();
  for (int64_t limit = program.most(); limit > 0;) {
    std::optional<Cuts> cuts = program.within(limit);
    if (!cuts)
      break;
    if (cuts->kept + cuts->largest < best.kept + best.largest)
      best = *cuts;
    limit = std::min(cuts->largest - 1, static_cast<int64_t>(kFall * static_cast<double>(limit)));
  }
  return best;
}

double Operator::price() const {
  int64_t bytes = 0;
  for (const Value &value : values)
    bytes += value.bytes;
  return seconds / static_cast<double>(std::max<int64_t>(bytes, 1));
}

std::vector<double> tessera::recompute::priceLevels(const std::vector<Operator> &operators) {
  std::vector<std::pair<double, double>> priced; // and seconds
  double all = 0, sum = 0;
  for (const Operator &op : operators) {
    priced.emplace_back(op.price(), op.seconds);
    all += op.seconds;
  }
  std::sort(priced.begin(), priced.end());
  std::vector<double> levels;
  const auto *share = kShares.begin();
  for (size_t i = 0; i < priced.size(); ++i) {
    auto [price, seconds] = priced[i];
    sum += seconds;
    if (i + 1 == priced.size()) {
      levels.push_back(price);
    } else if (priced[i + 1].first > price && share != kShares.end()) {
      // A level ends before the operator that goes beyond its share.
      double next = sum + priced[i + 1].second;
      if (next > *share * all)
        levels.push_back(price);
      while (share != kShares.end() && next > *share * all)
        ++share;
    }
  }
  return levels;
}

std::vector<bool> tessera::recompute::repeated(const std::vector<Operator> &forward, const Cuts &cuts,
                                               int64_t parts, double price) {
  std::vector<bool> chosen(forward.size());
  auto count = std::min(parts, static_cast<int64_t>(cuts.positions.size()));
  int64_t begin = 0;
  for (int64_t part = 0; part < count; ++part) {
    int64_t end = cuts.positions[part];
    for (int64_t p = begin; p < end; ++p)
      chosen[p] = forward[p].repeatable && forward[p].price() <= price &&
                  std::none_of(forward[p].values.begin(), forward[p].values.end(),
                               [&](const Value &value) { return value.lastForward >= end; });
    begin = end;
  }
  return chosen;
}
