// See Packer.h: what is tried, in which order, and when enough has been.
#include "passes/Memory/Packer.h"
#include "passes/Memory/Placing.h"
#include <algorithm>
#include <numeric>
#include <random>
#include <tuple>

using namespace tessera;

namespace {

int64_t roundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// The buffers that take something, over the columns: only positions after which something ends matter, since
// what is live at another is live at the next of these too.
class Problem {
public:
  Problem(const std::vector<PackBuffer> &buffers, int64_t alignment) {
    std::vector<std::pair<int64_t, bool>> events; // whether something starts; ends come first
    for (size_t i = 0; i < buffers.size(); ++i)
      if (const PackBuffer &b = buffers[i]; b.bytes > 0 && b.end > b.start) {
        owners.push_back(i);
        events.push_back({b.end, false});
        events.push_back({b.start, true});
      }
    std::sort(events.begin(), events.end());
    std::vector<int64_t> positions;
    for (size_t i = 0; i + 1 < events.size(); ++i)
      if (events[i].second && !events[i + 1].second)
        positions.push_back(events[i].first);
    auto column = [&](int64_t at) {
      return int(std::lower_bound(positions.begin(), positions.end(), at) - positions.begin());
    };
    columns = int(positions.size());
    for (size_t i : owners) {
      rectangles.push_back(
          {column(buffers[i].start), column(buffers[i].end), roundUp(buffers[i].bytes, alignment)});
      lives.push_back(buffers[i].end - buffers[i].start);
    }
    findContention();
  }

  int size() const { return int(rectangles.size()); }
  int64_t top(const Placing &placing, int i) const { return placing.offsets[i] + rectangles[i].bytes; }

  // All of them, by falling keys.
  template <typename Key> std::vector<int> sorted(Key key) const {
    std::vector<int> order(rectangles.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key(a) > key(b); });
    return order;
  }

  std::vector<size_t> owners; // of each rectangle, its buffer
  std::vector<Rectangle> rectangles;
  std::vector<int64_t> lives;      // of each rectangle, in positions
  std::vector<int64_t> contention; // of each rectangle, the largest live sum in its life
  int columns = 0;
  int64_t bound = 0;

private:
  void findContention() {
    // levels[k][c]: the largest sum of the 2^k columns from c on.
    std::vector<std::vector<int64_t>> levels(1, std::vector<int64_t>(columns + 1, 0));
    for (const Rectangle &r : rectangles) {
      levels[0][r.first] += r.bytes;
      levels[0][r.last] -= r.bytes;
    }
    std::partial_sum(levels[0].begin(), levels[0].end(), levels[0].begin());
    for (int width = 1; 2 * width <= columns; width *= 2) {
      std::vector<int64_t> next(columns - 2 * width + 1);
      for (size_t c = 0; c < next.size(); ++c)
        next[c] = std::max(levels.back()[c], levels.back()[c + width]);
      levels.push_back(std::move(next));
    }
    for (const Rectangle &r : rectangles) {
      int level = 0;
      while (2 << level <= r.last - r.first)
        ++level;
      contention.push_back(std::max(levels[level][r.first], levels[level][r.last - (1 << level)]));
      bound = std::max(bound, contention.back());
    }
  }
};

class Search {
public:
  Search(const Problem &problem, int64_t cap) : problem(problem), cap(cap) {}

  Placing run(bool searches) {
    start(searches);
    if (searches && !done())
      improve();
    return best;
  }

  WorkCount work = 0;

private:
  // What is counted takes some 30 ns: half a second, and a little for each buffer, on what misses the bound.
  static constexpr WorkCount kMostWork = 15'000'000, kMostWorkEach = 3000;

  // Programs of many thousands of buffers: what misses the bound by little is not worth the whole budget.
  static constexpr WorkCount kMostWorkOnLittle = 30'000'000;
  static constexpr int64_t kLittle = 500;

  // With a cap that the peak is below, or that no peak is, so much of the bound is not worth any in programs
  // of so many buffers.
  static constexpr int64_t kNear = 50;
  static constexpr int kMany = 2000;

  bool done() const {
    if (best.offsets.empty())
      return false;
    const int64_t excess = best.peak - problem.bound;
    const bool isDecided =
        problem.size() >= kMany && cap != kNoCap && (best.peak <= cap || problem.bound > cap);
    return excess == 0 || (isDecided && excess <= problem.bound / kNear) ||
           work >= kMostWork + kMostWorkEach * problem.size() ||
           (work >= kMostWorkOnLittle && excess <= problem.bound / kLittle);
  }

  void keep(Placing placing) {
    if (best.offsets.empty() || placing.peak < best.peak)
      best = std::move(placing);
  }

  Placing fit(const std::vector<int> &order) {
    return firstFit(problem.rectangles, problem.columns, order, work);
  }

  Placing fill(const std::vector<int> &order) {
    return fillLowest(problem.rectangles, problem.columns, order, work);
  }

  // Every rectangle as far up under the peak as it will go, the highest first, then all down again, the
  // lowest first. Each finds its old place free at least, so the peak never rises.
  Placing justify(Placing placing) {
    for (int side = 0; side < 2; ++side)
      placing = fit(problem.sorted([&](int i) { return problem.top(placing, i); }));
    return placing;
  }

  void start(bool searches) {
    const auto &all = problem.rectangles;
    auto bytes = [&](int i) { return all[i].bytes; };
    auto life = [&](int i) { return problem.lives[i]; };
    auto area = [&](int i) { return double(bytes(i)) * double(life(i)); };
    auto most = [&](int i) { return problem.contention[i]; };
    const std::vector<std::vector<int>> orders = {
        problem.sorted([&](int i) { return std::tuple(bytes(i), life(i), -all[i].first); }),
        problem.sorted([&](int i) { return std::tuple(most(i), bytes(i), life(i)); }),
        problem.sorted([&](int i) { return std::tuple(area(i), bytes(i)); }),
        problem.sorted([&](int i) { return std::tuple(life(i), bytes(i), -all[i].first); }),
        problem.sorted([&](int i) { return std::tuple(most(i), life(i)); }),
        problem.sorted([&](int i) { return std::tuple(most(i), area(i)); })};
    std::vector<Placing> tried;
    auto add = [&](Placing placing) {
      keep(placing);
      tried.push_back(std::move(placing));
    };
    for (size_t i = 0; i < orders.size() && !done(); ++i) {
      Placing placing = fill(orders[i]);
      if (i == 0 || placing.peak < best.peak)
        fillOrder = orders[i];
      add(std::move(placing));
    }
    if (!searches)
      return;
    for (size_t i = 0; i < orders.size() && !done(); ++i) {
      Placing placing = fit(orders[i]);
      if (i == 0 || placing.peak < fitPeak) {
        fitPeak = placing.peak;
        fitOrder = orders[i];
      }
      add(std::move(placing));
    }
    std::stable_sort(tried.begin(), tried.end(),
                     [](const Placing &a, const Placing &b) { return a.peak < b.peak; });
    for (size_t i = 0; i < tried.size() && !done(); ++i)
      keep(justify(tried[i]));
  }

  // Bytes above the bound, each as long as it lives. Products are exact: one rounded with the sum, as some
  // machines do, would have others take another walk.
  double excess(const Placing &placing) const {
    double sum = 0;
    for (int i = 0; i < problem.size(); ++i)
      if (int64_t over = problem.top(placing, i) - problem.bound; over > 0)
        sum += double(std::min(over, problem.rectangles[i].bytes) * problem.lives[i]);
    return sum;
  }

  // The order with one of what holds up the excess moved forward.
  std::vector<int> moved(std::vector<int> order, const Placing &placing) {
    size_t from = std::find(order.begin(), order.end(), supporter(placing)) - order.begin();
    if (from == 0)
      from = order.size() - 1;
    size_t to = random() % from;
    std::rotate(order.begin() + to, order.begin() + from, order.begin() + from + 1);
    return order;
  }

  // A walk over orders, of steps that do not add to the excess.
  struct Walk {
    Placing (Search::*place)(const std::vector<int> &order);
    std::vector<int> order;
    Placing placing;
    double excess;
  };

  Placing fitJustified(const std::vector<int> &order) { return justify(fit(order)); }

  Walk begin(Placing (Search::*place)(const std::vector<int> &), std::vector<int> order, Placing placing) {
    const double sum = excess(placing);
    return {place, std::move(order), std::move(placing), sum};
  }

  // Three walks in turn: over orders to fill the skyline by, over orders to fit by, and from placing to
  // justified placing, the order being that of its offsets.
  void improve() {
    Walk walks[] = {begin(&Search::fill, fillOrder, fill(fillOrder)),
                    begin(&Search::fit, fitOrder, fit(fitOrder)), begin(&Search::fitJustified, {}, best)};
    for (size_t turn = 0; !done(); ++turn) {
      Walk &walk = walks[turn % std::size(walks)];
      if (walk.place == &Search::fitJustified)
        walk.order = problem.sorted([&](int i) { return -walk.placing.offsets[i]; });
      std::vector<int> order = moved(walk.order, walk.placing);
      Placing next = (this->*walk.place)(order);
      keep(next);
      if (excess(next) <= walk.excess)
        walk = begin(walk.place, std::move(order), std::move(next));
    }
  }

  // One of those that hold up one that ends above the bound, one on the other, or this one itself.
  int supporter(const Placing &placing) {
    std::vector<int> chain;
    for (int i = 0; i < problem.size(); ++i)
      if (problem.top(placing, i) > problem.bound)
        chain.push_back(i);
    chain = {chain[random() % chain.size()]};
    for (int next = chain[0]; next >= 0;) {
      const Rectangle &above = problem.rectangles[chain.back()];
      next = -1;
      for (int i = 0; i < problem.size() && next < 0; ++i)
        if (const Rectangle &r = problem.rectangles[i];
            problem.top(placing, i) == placing.offsets[chain.back()] && r.first < above.last &&
            above.first < r.last)
          next = i;
      if (next >= 0)
        chain.push_back(next);
      work += problem.size() / 16;
    }
    return chain[random() % chain.size()];
  }

  static constexpr int64_t kNoCap = std::numeric_limits<int64_t>::max();

  const Problem &problem;
  const int64_t cap;
  Placing best;
  std::vector<int> fillOrder, fitOrder; // the best ones to fill the skyline and to fit by
  int64_t fitPeak = 0;
  std::minstd_rand random{1};
};

} // namespace

Packing tessera::pack(const std::vector<PackBuffer> &buffers, int64_t alignment, int64_t cap, bool searches) {
  Packing packing;
  packing.offsets.resize(buffers.size());
  Problem problem(buffers, alignment);
  if (problem.size() == 0)
    return packing;
  Search search(problem, cap);
  Placing placing = search.run(searches);
  for (int i = 0; i < problem.size(); ++i)
    packing.offsets[problem.owners[i]] = placing.offsets[i];
  packing.peak = placing.peak;
  packing.bound = problem.bound;
  packing.work = search.work;
  return packing;
}
