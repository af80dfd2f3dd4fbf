#include "passes/Assign/Balance.h"
#include <algorithm>
#include <limits>

using namespace tessera;

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

class Balance {
public:
  Balance(const Chain &chain, const std::vector<double> &live, double tolerance, std::vector<int64_t> places)
      : chain(chain), live(live), tolerance(tolerance), places(std::move(places)) {}
  std::vector<int64_t> run();

private:
  /// The largest cost of a chunk, and all that is sent.
  using Key = std::pair<double, double>;

  double secondsOf(int64_t begin, int64_t end) const {
    return chain.seconds[end] - chain.seconds[begin] + chain.crossing[begin] + chain.crossing[end];
  }
  double bytesOf(size_t chunk, int64_t begin, int64_t end) const {
    return chain.variables[end] - chain.variables[begin] +
           live[chunk] * (chain.activations[end] - chain.activations[begin]);
  }
  /// Exact, by dynamic programming over chunks and places; `cost(chunk, begin, end)`. Leaves the ends in
  /// `ends` and returns the largest cost.
  template <typename Cost> double solve(Cost cost);

  const Chain &chain;
  const std::vector<double> &live;
  const double tolerance;
  /// Where chunks may begin and end, from 0 to the chain's end.
  std::vector<int64_t> places;
  std::vector<int64_t> ends;
};

} // namespace

template <typename Cost> double Balance::solve(Cost cost) {
  size_t n = places.size(), chunks = live.size();
  std::vector best(chunks + 1, std::vector<Key>(n, {kNever, 0}));
  std::vector from(chunks + 1, std::vector<size_t>(n));
  best[0][0] = {0, 0};
  for (size_t chunk = 0; chunk < chunks; ++chunk)
    for (size_t j = 1; j < n; ++j)
      for (size_t i = 0; i < j; ++i) {
        auto [largest, sent] = best[chunk][i];
        if (largest == kNever || chain.layers[places[j]] == chain.layers[places[i]])
          continue;
        Key key{std::max(largest, cost(chunk, places[i], places[j])), sent + chain.crossing[places[j]]};
        if (key < best[chunk + 1][j])
          best[chunk + 1][j] = key, from[chunk + 1][j] = i;
      }
  double largest = best[chunks][n - 1].first;
  if (largest == kNever)
    return kNever;
  ends.resize(chunks);
  for (size_t chunk = chunks, end = n - 1; chunk > 0; --chunk) {
    ends[chunk - 1] = places[end];
    end = from[chunk][end];
  }
  return largest;
}

std::vector<int64_t> Balance::run() {
  double fastest = solve([&](size_t, int64_t begin, int64_t end) { return secondsOf(begin, end); });
  if (fastest == kNever)
    return {};
  if (tolerance == 0)
    return ends;
  solve([&](size_t chunk, int64_t begin, int64_t end) {
    return secondsOf(begin, end) > (1 + tolerance) * fastest ? kNever : bytesOf(chunk, begin, end);
  });
  return ends;
}

// Only cuts that send no more than their neighbours, where there are enough of them; every chunk finds its
// layer among all.
std::vector<int64_t> tessera::balance(const Chain &chain, const std::vector<double> &live, double tolerance) {
  int64_t n = int64_t(chain.seconds.size()) - 1;
  const std::vector<double> &crossing = chain.crossing;
  std::vector<int64_t> narrow, everywhere;
  for (int64_t i = 0; i <= n; ++i) {
    everywhere.push_back(i);
    bool inside = i > 0 && i < n;
    if (!inside || (crossing[i] <= crossing[i - 1] && (i + 1 == n || crossing[i] <= crossing[i + 1])))
      narrow.push_back(i);
  }
  std::vector<int64_t> ends = Balance(chain, live, tolerance, narrow).run();
  return ends.empty() ? Balance(chain, live, tolerance, everywhere).run() : ends;
}
