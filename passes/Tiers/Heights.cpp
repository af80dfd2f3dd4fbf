#include "passes/Tiers/Heights.h"
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

using namespace tessera::tiers;

Heights::Heights(std::vector<int64_t> bytes)
    : bytes_(std::move(bytes)), blocks_((bytes_.size() + kBlock - 1) / kBlock) {
  for (size_t b = 0; b < blocks_.size(); ++b)
    summarize(static_cast<int64_t>(b));
}

void Heights::summarize(int64_t block) {
  int64_t begin = block * kBlock, end = std::min(begin + kBlock, positions());
  auto [least, most] = std::minmax_element(bytes_.begin() + begin, bytes_.begin() + end);
  blocks_[block].least = *least;
  blocks_[block].most = *most;
}

void Heights::add(Range range, int64_t bytes) {
  for (int64_t p = range.begin; p < range.end;) {
    int64_t block = p / kBlock, begin = block * kBlock, last = std::min(begin + kBlock, positions());
    int64_t end = std::min(last, range.end);
    if (p == begin && end == last) {
      blocks_[block].added += bytes;
    } else {
      for (int64_t q = p; q < end; ++q)
        bytes_[q] += bytes;
      summarize(block);
    }
    p = end;
  }
}

int64_t Heights::firstAbove(Range range, int64_t limit) const {
  for (int64_t p = range.begin; p < range.end;) {
    int64_t block = p / kBlock, end = std::min((block + 1) * kBlock, range.end);
    if (mostOf(block) > limit)
      for (; p < end; ++p)
        if ((*this)[p] > limit)
          return p;
    p = end;
  }
  return -1;
}

int64_t Heights::most() const {
  int64_t most = blocks_.empty() ? 0 : mostOf(0);
  for (size_t b = 1; b < blocks_.size(); ++b)
    most = std::max(most, mostOf(static_cast<int64_t>(b)));
  return most;
}

double Heights::weighted(Range range, int64_t bytes, const std::vector<double> &weights) const {
  constexpr int kSums = 4; // side by side, for each addition waits for the one before
  std::array<double, kSums> sums{};
  const int64_t added = blocks_[range.begin / kBlock].added;
  auto of = [&](int64_t p) {
    return static_cast<double>(std::clamp<int64_t>(bytes_[p] + added, 0, bytes)) * weights[p];
  };
  int64_t p = range.begin;
  for (; p + kSums <= range.end; p += kSums)
    for (int i = 0; i < kSums; ++i)
      sums[i] += of(p + i);
  for (; p < range.end; ++p)
    sums[0] += of(p);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

std::vector<int64_t> Heights::all() const {
  std::vector<int64_t> all;
  for (int64_t p = 0; p < positions(); ++p)
    all.push_back((*this)[p]);
  return all;
}
