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
    for (PackBuffer &b : buffers)
      b.bytes = roundUp(b.bytes, alignment);
    neighbours.resize(buffers.size());
    std::vector<size_t> byStart(buffers.size());
    std::iota(byStart.begin(), byStart.end(), 0);
    std::sort(byStart.begin(), byStart.end(),
              [&](size_t a, size_t b) { return std::pair(buffers[a].start, a) < std::pair(buffers[b].start, b); });
    std::vector<size_t> live;
    for (size_t i : byStart) {
      std::erase_if(live, [&](size_t j) { return buffers[j].end <= buffers[i].start; });
      if (buffers[i].bytes == 0 || buffers[i].end <= buffers[i].start)
        continue;
      for (size_t j : live) {
        neighbours[i].push_back(j);
        neighbours[j].push_back(i);
      }
      live.push_back(i);
    }
    // Live sums change only where a buffer begins.
    contention.assign(buffers.size(), 0);
    for (size_t i = 0; i < buffers.size(); ++i) {
      int64_t sum = buffers[i].bytes;
      for (size_t j : neighbours[i])
        if (buffers[j].start <= buffers[i].start && buffers[i].start < buffers[j].end)
          sum += buffers[j].bytes;
      startSum.push_back(sum);
      bound = std::max(bound, sum);
    }
    for (size_t i = 0; i < buffers.size(); ++i) {
      contention[i] = startSum[i];
      for (size_t j : neighbours[i])
        if (buffers[j].start >= buffers[i].start && buffers[j].start < buffers[i].end)
          contention[i] = std::max(contention[i], startSum[j]);
    }
  }

  Packing place(const std::vector<size_t> &order) const {
    Packing p{std::vector<int64_t>(buffers.size(), -1), 0, bound};
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (size_t i : order) {
      if (buffers[i].bytes == 0) {
        p.offsets[i] = 0;
        continue;
      }
      taken.clear();
      for (size_t j : neighbours[i])
        if (p.offsets[j] >= 0)
          taken.push_back({p.offsets[j], p.offsets[j] + buffers[j].bytes});
      std::sort(taken.begin(), taken.end());
      int64_t at = 0;
      for (auto [from, to] : taken) {
        if (from - at >= buffers[i].bytes)
          break;
        at = std::max(at, to);
      }
      p.offsets[i] = at;
      p.peak = std::max(p.peak, at + buffers[i].bytes);
    }
    return p;
  }

  Packing run() const {
    auto life = [&](size_t i) { return buffers[i].end - buffers[i].start; };
    auto sorted = [&](auto key) {
      std::vector<size_t> order(buffers.size());
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) > key(b); });
      return order;
    };
    std::vector<std::vector<size_t>> orders = {
        sorted([&](size_t i) { return std::make_tuple(buffers[i].bytes, life(i), -buffers[i].start); }),
        sorted([&](size_t i) { return std::make_tuple(contention[i], buffers[i].bytes, life(i)); }),
        sorted([&](size_t i) { return std::make_tuple(double(buffers[i].bytes) * double(life(i)), buffers[i].bytes, int64_t(0)); })};
    Packing best;
    std::vector<size_t> bestOrder;
    for (auto &order : orders) {
      Packing p = place(order);
      if (bestOrder.empty() || p.peak < best.peak)
        best = p, bestOrder = order;
    }
    std::minstd_rand random(1);
    for (int move = 0; move < 150 && best.peak > bound; ++move) {
      std::vector<size_t> order = bestOrder;
      size_t from = supporter(best, random), position = std::find(order.begin(), order.end(), from) - order.begin();
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
  // A buffer of the chain of touching buffers from the one at the peak down to the bottom.
  size_t supporter(const Packing &p, std::minstd_rand &random) const {
    std::vector<size_t> chain;
    for (size_t i = 0; i < buffers.size(); ++i)
      if (p.offsets[i] + buffers[i].bytes == p.peak) {
        chain.push_back(i);
        break;
      }
    for (bool more = true; more;) {
      more = false;
      size_t top = chain.back();
      for (size_t j : neighbours[top])
        if (p.offsets[j] + buffers[j].bytes == p.offsets[top]) {
          chain.push_back(j);
          more = true;
          break;
        }
    }
    return chain[random() % chain.size()];
  }

  std::vector<PackBuffer> buffers;
  std::vector<std::vector<size_t>> neighbours;
  std::vector<int64_t> startSum, contention;
  int64_t bound = 0;
};

} // namespace

Packing tessera::pack(const std::vector<PackBuffer> &buffers, int64_t alignment) {
  if (buffers.empty())
    return {};
  return Search(buffers, alignment).run();
}
