// See shards.h.
#include "runtime/core/shards.h"

#include <charconv>

namespace tessera::rt {

namespace {

constexpr int64_t mostRanks = int64_t(1) << 20;

} // namespace

std::string Shards::check() const {
  if (sizes.empty())
    return "there are no sizes";
  int64_t last = 1;
  bool found = false;
  for (int64_t each : sizes) {
    if (each < last || each > mostRanks || (each == last && found))
      return "sizes must ascend, from 1 to " + std::to_string(mostRanks);
    if (each % last != 0)
      return "sizes must divide one another, or sums would have other bits on each; " + std::to_string(last) +
             " does not divide " + std::to_string(each);
    last = each;
    found = true;
  }
  bool has = false;
  for (int64_t each : sizes)
    has |= each == size;
  if (!has)
    return std::to_string(size) + " is none of the sizes";
  if (count < last || count % last != 0)
    return std::to_string(count) + " shards of the batch are not divided by size " + std::to_string(last);
  return "";
}

std::vector<int64_t> Shards::rankLevels() const {
  std::vector<int64_t> levels;
  int64_t before = 1;
  for (int64_t each : sizes) {
    if (each > size)
      break;
    if (each > before)
      levels.push_back(each / before);
    before = each;
  }
  return levels;
}

std::vector<int64_t> Shards::microbatchLevels() const {
  // A step of another batch has other sums anyway.
  if (scales)
    return {microbatches()};
  std::vector<int64_t> levels;
  int64_t before = size;
  for (int64_t each : sizes)
    if (each > before) {
      levels.push_back(each / before);
      before = each;
    }
  if (count > before)
    levels.push_back(count / before);
  return levels;
}

std::vector<int64_t> microbatchOrder(const std::vector<int64_t> &levels) {
  std::vector<int64_t> order = {0};
  int64_t weight = 1;
  // What is inside of a level comes together; the outermost level is the least digit of the number.
  for (int64_t children : levels) {
    std::vector<int64_t> next;
    for (int64_t number : order)
      for (int64_t child = 0; child < children; ++child)
        next.push_back(number + child * weight);
    order = std::move(next);
    weight *= children;
  }
  return order;
}

std::optional<std::vector<int64_t>> parseSizes(const std::string &text) {
  std::vector<int64_t> sizes;
  const char *at = text.data(), *end = at + text.size();
  while (true) {
    int64_t size = 0;
    auto [next, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size < 1 || size > mostRanks || (!sizes.empty() && size <= sizes.back()))
      return std::nullopt;
    sizes.push_back(size);
    if (next == end)
      return sizes;
    if (*next != ',')
      return std::nullopt;
    at = next + 1;
  }
}

} // namespace tessera::rt
