// See Placing.h: the skyline, and a tree of the rectangles that are left.
#include "passes/Memory/Placing.h"
#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <set>

using namespace tessera;

namespace {

// Rectangles that are yet to be placed, by their first column: which of those between two walls comes first.
class Remaining {
public:
  Remaining(const std::vector<Rectangle> &rectangles, int columns, const std::vector<int> &order)
      : leaves(int(std::bit_ceil(rectangles.size()))), nodes(2 * leaves), at(rectangles.size()),
        begins(columns + 1, 0), order(order) {
    for (const Rectangle &rectangle : rectangles)
      ++begins[rectangle.first + 1];
    for (int column = 0; column < columns; ++column)
      begins[column + 1] += begins[column];
    std::vector<int> next(begins.begin(), begins.end());
    for (size_t rank = 0; rank < order.size(); ++rank) {
      const Rectangle &rectangle = rectangles[order[rank]];
      at[order[rank]] = next[rectangle.first]++ + leaves;
      nodes[at[order[rank]]] = {rectangle.last, int(rank)};
    }
    for (int node = leaves - 1; node >= 1; --node)
      update(node);
  }

  // The first in the order of those in [first, last), or -1.
  int find(int first, int last, WorkCount &work) const {
    int rank = kNone;
    search(1, 0, leaves, begins[first], begins[last], last, rank, work);
    return rank == kNone ? -1 : order[rank];
  }

  void remove(int rectangle) {
    int node = at[rectangle];
    nodes[node] = {};
    while (node /= 2)
      update(node);
  }

private:
  static constexpr int kNone = std::numeric_limits<int>::max();
  struct Node {
    int last = kNone, rank = kNone; // the least below it
  };

  void update(int node) {
    const Node &a = nodes[2 * node], &b = nodes[2 * node + 1];
    nodes[node] = {std::min(a.last, b.last), std::min(a.rank, b.rank)};
  }

  void search(int node, int from, int to, int begin, int end, int last, int &rank, WorkCount &work) const {
    ++work;
    if (to <= begin || end <= from || nodes[node].last > last || nodes[node].rank >= rank)
      return;
    if (to - from == 1) {
      rank = nodes[node].rank;
      return;
    }
    const int middle = (from + to) / 2;
    // What is earlier in the order first: it spares the other.
    const bool swapped = nodes[2 * node + 1].rank < nodes[2 * node].rank;
    for (bool right : {swapped, !swapped})
      search(2 * node + right, right ? middle : from, right ? to : middle, begin, end, last, rank, work);
  }

  int leaves;
  std::vector<Node> nodes;
  std::vector<int> at;     // the leaf of each rectangle
  std::vector<int> begins; // by column: how many begin before it
  const std::vector<int> &order;
};

// The height of every column; neighbours of one height are one part.
class Skyline {
public:
  explicit Skyline(int columns) : columns(columns) { put(0, 0); }

  struct Part {
    int first, last;
    int64_t height;
  };
  Part lowest() const {
    auto [height, first] = *byHeight.begin();
    auto next = std::next(parts.find(first));
    return {first, next == parts.end() ? columns : next->first, height};
  }

  // Puts [first, last) of this part to a height.
  void raise(const Part &part, int first, int last, int64_t height) {
    byHeight.erase({part.height, part.first});
    parts.erase(part.first);
    if (part.first < first)
      put(part.first, part.height);
    put(first, height);
    if (last < part.last)
      put(last, part.height);
    else if (auto next = parts.find(last); next != parts.end() && next->second == height)
      drop(next);
    if (auto it = parts.find(first); it != parts.begin() && std::prev(it)->second == height)
      drop(it);
  }

  // The lower of the heights beside a part.
  int64_t wall(const Part &part) const {
    auto it = parts.find(part.first), next = std::next(it);
    int64_t height = next == parts.end() ? std::numeric_limits<int64_t>::max() : next->second;
    return it == parts.begin() ? height : std::min(height, std::prev(it)->second);
  }

private:
  void put(int first, int64_t height) {
    parts[first] = height;
    byHeight.insert({height, first});
  }
  void drop(std::map<int, int64_t>::iterator it) {
    byHeight.erase({it->second, it->first});
    parts.erase(it);
  }

  int columns;
  std::map<int, int64_t> parts; // by first column
  std::set<std::pair<int64_t, int>> byHeight;
};

} // namespace

Placing tessera::fillLowest(const std::vector<Rectangle> &rectangles, int columns,
                            const std::vector<int> &order, WorkCount &work) {
  Placing placing{std::vector<int64_t>(rectangles.size(), 0), 0};
  Remaining remaining(rectangles, columns, order);
  Skyline skyline(columns);
  for (size_t left = rectangles.size(); left > 0;) {
    Skyline::Part part = skyline.lowest();
    int i = remaining.find(part.first, part.last, work);
    if (i < 0) {
      skyline.raise(part, part.first, part.last, skyline.wall(part));
      continue;
    }
    const int64_t top = part.height + rectangles[i].bytes;
    placing.offsets[i] = part.height;
    placing.peak = std::max(placing.peak, top);
    skyline.raise(part, rectangles[i].first, rectangles[i].last, top);
    remaining.remove(i);
    --left;
  }
  return placing;
}
