#include "passes/Memory/Packer.h"
#include <algorithm>
#include <numeric>
#include <random>
#include <tuple>

using namespace tessera;

namespace {

int64_t roundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

class Search {
public:
  Search(const std::vector<PackBuffer> &given, int64_t alignment) : buffers(given) {
    // One that is never live takes nothing.
    for (PackBuffer &b : buffers)
      b.bytes = b.end > b.start ? roundUp(b.bytes, alignment) : 0;
    // Live sums rise only where buffers begin.
    std::vector<std::pair<int64_t, int64_t>> events;
    for (const PackBuffer &b : buffers)
      if (b.bytes > 0) {
        events.push_back({b.start, b.bytes});
        events.push_back({b.end, -b.bytes});
      }
    std::sort(events.begin(), events.end());
    std::vector<int64_t> positions, sums;
    int64_t live = 0;
    for (auto [at, change] : events) {
      live += change;
      if (positions.empty() || positions.back() != at) {
        positions.push_back(at);
        sums.push_back(live);
      }
      sums.back() = live;
      bound = std::max(bound, live);
    }
    for (const PackBuffer &b : buffers) {
      size_t k = std::lower_bound(positions.begin(), positions.end(), b.start) - positions.begin();
      int64_t most = 0;
      for (; k < positions.size() && positions[k] < b.end; ++k)
        most = std::max(most, sums[k]);
      contention.push_back(most);
    }
  }

  Packing place(const std::vector<size_t> &order) const {
    Packing p{std::vector<int64_t>(buffers.size(), 0), 0, bound};
    struct Placed {
      int64_t from, to, start, end;
    };
    std::vector<Placed> placed; // by offset, so that the first gap ends the search
    placed.reserve(buffers.size());
    for (size_t i : order) {
      const PackBuffer &b = buffers[i];
      if (b.bytes == 0)
        continue;
      int64_t at = 0;
      for (const Placed &other : placed) {
        if (other.start >= b.end || b.start >= other.end)
          continue;
        if (other.from - at >= b.bytes)
          break;
        at = std::max(at, other.to);
      }
      p.offsets[i] = at;
      p.peak = std::max(p.peak, at + b.bytes);
      auto where = std::upper_bound(placed.begin(), placed.end(), at,
                                    [](int64_t from, const Placed &o) { return from < o.from; });
      placed.insert(where, {at, at + b.bytes, b.start, b.end});
    }
    return p;
  }

  Packing run() const {
    auto life = [&](size_t i) { return buffers[i].end - buffers[i].start; };
    auto sorted = [&](auto key) {
      std::vector<size_t> order(buffers.size());
      std::iota(order.begin(), order.end(), 0);
      std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        auto ka = key(a), kb = key(b);
        return ka != kb ? ka > kb : a < b;
      });
      return order;
    };
    std::vector<std::vector<size_t>> orders = {
        sorted([&](size_t i) { return std::make_tuple(buffers[i].bytes, life(i), -buffers[i].start); }),
        sorted([&](size_t i) { return std::make_tuple(contention[i], buffers[i].bytes, life(i)); }),
        sorted([&](size_t i) {
          return std::make_tuple(double(buffers[i].bytes) * double(life(i)), buffers[i].bytes, int64_t(0));
        }),
        sorted([&](size_t i) { return std::make_tuple(life(i), buffers[i].bytes, -buffers[i].start); })};
    Packing best;
    std::vector<size_t> bestOrder;
    for (auto &order : orders) {
      Packing p = place(order);
      if (bestOrder.empty() || p.peak < best.peak)
        best = p, bestOrder = order;
      if (best.peak == bound)
        return best;
    }
    // One placement looks at every pair at worst.
    double pairs = double(buffers.size()) * double(buffers.size());
    int moves = int(std::min(kMostMoves, kMostPairs / pairs));
    std::minstd_rand random(1);
    for (int move = 0; move < moves && best.peak > bound; ++move) {
      std::vector<size_t> order = bestOrder;
      size_t from = supporter(best, random),
             position = std::find(order.begin(), order.end(), from) - order.begin();
      if (position == 0)
        continue;
      size_t to = random() % position;
      std::rotate(order.begin() + to, order.begin() + position, order.begin() + position + 1);
      Packing p = place(order);
      if (p.peak <= best.peak)
        best = p, bestOrder = order;
    }
    return best;
  }

private:
  static constexpr double kMostMoves = 150, kMostPairs = 2e8;

  // A buffer of the chain of touching buffers from the one at the peak down to the bottom.
  size_t supporter(const Packing &p, std::minstd_rand &random) const {
    std::vector<size_t> chain;
    for (size_t i = 0; i < buffers.size() && chain.empty(); ++i)
      if (buffers[i].bytes > 0 && p.offsets[i] + buffers[i].bytes == p.peak)
        chain.push_back(i);
    for (bool more = true; more;) {
      more = false;
      const size_t top = chain.back();
      for (size_t j = 0; j < buffers.size() && !more; ++j)
        if (buffers[j].bytes > 0 && p.offsets[j] + buffers[j].bytes == p.offsets[top] &&
            buffers[j].start < buffers[top].end && buffers[top].start < buffers[j].end) {
          chain.push_back(j);
          more = true;
        }
    }
    return chain[random() % chain.size()];
  }

  std::vector<PackBuffer> buffers;
  std::vector<int64_t> contention; // the largest live sum in each buffer's life
  int64_t bound = 0;
};

} // namespace

Packing tessera::pack(const std::vector<PackBuffer> &buffers, int64_t alignment) {
  if (buffers.empty())
    return {};
  return Search(buffers, alignment).run();
}
