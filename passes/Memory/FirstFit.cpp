// First fit in about n log n: a tree over the columns, whose nodes hold ranges of bytes that are taken.
#include "passes/Memory/Placing.h"
#include <algorithm>
#include <bit>

using namespace tessera;

namespace {

// Ranges of bytes, apart from each other, in rising order.
class Ranges {
public:
  // The lowest place from `at` on for so many bytes. All ranges before `next` end at `at` or below, and do
  // so afterwards: who asks for higher and higher places looks at each range once.
  int64_t lift(size_t &next, int64_t at, int64_t bytes, WorkCount &work) const {
    for (size_t step = 1; next < ranges.size() && ranges[next].to <= at; step *= 2) {
      size_t last = std::min(next + step, ranges.size()) - 1;
      if (ranges[last].to > at)
        last = std::upper_bound(ranges.begin() + next, ranges.begin() + last, at,
                                [](int64_t at, const Range &range) { return at < range.to; }) -
               ranges.begin() - 1;
      next = last + 1;
    }
    for (++work; next < ranges.size() && ranges[next].from < at + bytes; ++next, ++work)
      at = ranges[next].to;
    return at;
  }

  void add(int64_t from, int64_t to) {
    auto begin = std::lower_bound(ranges.begin(), ranges.end(), from,
                                  [](const Range &range, int64_t from) { return range.to < from; });
    auto end = begin;
    for (; end != ranges.end() && end->from <= to; ++end) {
      from = std::min(from, end->from);
      to = std::max(to, end->to);
    }
    if (begin == end) {
      ranges.insert(begin, {from, to});
      return;
    }
    *begin = {from, to};
    ranges.erase(begin + 1, end);
  }

  bool empty() const { return ranges.empty(); }

private:
  struct Range {
    int64_t from, to;
  };
  std::vector<Range> ranges;
};

class Tree {
public:
  explicit Tree(int columns)
      : leaves(int(std::bit_ceil(unsigned(columns)))), across(2 * leaves), below(2 * leaves),
        askedIn(2 * leaves, 0) {}

  int64_t lowest(const Rectangle &rectangle, WorkCount &work) {
    asked.clear();
    ++question;
    for (int node : cover(rectangle)) {
      ask(below[node]);
      for (int above = node / 2; above >= 1 && askedIn[above] != question; above /= 2) {
        askedIn[above] = question;
        ask(across[above]);
      }
    }
    // Until no set objects to the place.
    int64_t at = 0;
    for (size_t agreed = 0, i = 0; agreed < asked.size(); i = (i + 1) % asked.size()) {
      int64_t lifted = asked[i].ranges->lift(asked[i].next, at, rectangle.bytes, work);
      agreed = lifted == at ? agreed + 1 : 1;
      at = lifted;
    }
    return at;
  }

  void add(const Rectangle &rectangle, int64_t at) {
    const int64_t to = at + rectangle.bytes;
    for (int node : cover(rectangle)) {
      across[node].add(at, to);
      for (int above = node; above >= 1; above /= 2)
        below[above].add(at, to);
    }
  }

private:
  void ask(const Ranges &ranges) {
    if (!ranges.empty())
      asked.push_back({&ranges, 0});
  }

  // The fewest nodes whose columns are the rectangle's.
  const std::vector<int> &cover(const Rectangle &rectangle) {
    nodes.clear();
    for (int l = rectangle.first + leaves, r = rectangle.last + leaves; l < r; l /= 2, r /= 2) {
      if (l % 2)
        nodes.push_back(l++);
      if (r % 2)
        nodes.push_back(--r);
    }
    return nodes;
  }

  int leaves;
  std::vector<Ranges> across, below; // by node: of rectangles that it is in the cover of; of all in it
  std::vector<int64_t> askedIn;      // by node: the last question that asked its `across`
  int64_t question = 0;
  std::vector<int> nodes;
  struct Asked {
    const Ranges *ranges;
    size_t next;
  };
  std::vector<Asked> asked;
};

} // namespace

Placing tessera::firstFit(const std::vector<Rectangle> &rectangles, int columns,
                          const std::vector<int> &order, WorkCount &work) {
  Placing placing{std::vector<int64_t>(rectangles.size(), 0), 0};
  Tree tree(columns);
  for (int i : order) {
    int64_t at = tree.lowest(rectangles[i], work);
    tree.add(rectangles[i], at);
    placing.offsets[i] = at;
    placing.peak = std::max(placing.peak, at + rectangles[i].bytes);
  }
  return placing;
}
