// See Fold.h.
#include "passes/Assign/Fold.h"
#include <algorithm>

namespace tessera {
namespace {

struct Run {
  size_t length = 1, times = 1;
};

/// Longer blocks are not looked for.
constexpr size_t kLongestBlock = 2000;

// Of [begin, end), by position: the repetition that begins there and covers most.
std::vector<Run> repetitions(const std::vector<int> &keys, size_t begin, size_t end) {
  std::vector<Run> best(end - begin);
  for (size_t length = 1; length <= std::min((end - begin) / 2, kLongestBlock); ++length) {
    size_t equal = 0; // elements from `at` on that come again `length` later
    for (size_t at = end - length; at-- > begin;) {
      equal = keys[at] == keys[at + length] ? equal + 1 : 0;
      size_t times = 1 + equal / length;
      Run &known = best[at - begin];
      if (times > 1 && times * length > (known.times > 1 ? known.times * known.length : 0))
        known = {length, times};
    }
  }
  return best;
}

std::vector<Folded> fold(const std::vector<int> &keys, size_t begin, size_t end) {
  std::vector<Folded> result;
  std::vector<Run> best = repetitions(keys, begin, end);
  for (size_t at = begin; at < end;) {
    auto [length, times] = best[at - begin];
    if (times == 1)
      result.push_back({1, {}, at, 1});
    else if (length == 1)
      result.push_back({times, {{1, {}, at, 1}}, at, times});
    else
      result.push_back({times, fold(keys, at, at + length), at, length * times});
    at += length * times;
  }
  return result;
}

} // namespace

std::vector<Folded> foldRepeats(const std::vector<int> &keys) { return fold(keys, 0, keys.size()); }

} // namespace tessera
