// Bytes by position, for many changes of long ranges. Internal to the search.
#ifndef TESSERA_PASSES_TIERS_HEIGHTS_H
#define TESSERA_PASSES_TIERS_HEIGHTS_H

#include "passes/Tiers/Gaps.h"
#include <cstdint>
#include <vector>

namespace tessera::tiers {

/// Positions are in blocks, of each of which the least and the most are known; what is added to a whole block
/// is kept beside it. So a range costs what its blocks and the positions at its ends do.
class Heights {
public:
  static constexpr int64_t kBlock = 32;

  explicit Heights(std::vector<int64_t> bytes);

  int64_t positions() const { return static_cast<int64_t>(bytes_.size()); }
  int64_t operator[](int64_t position) const { return bytes_[position] + blocks_[position / kBlock].added; }
  int64_t leastOf(int64_t block) const { return blocks_[block].least + blocks_[block].added; }
  int64_t mostOf(int64_t block) const { return blocks_[block].most + blocks_[block].added; }
  /// The most of all, 0 without positions.
  int64_t most() const;
  /// The first position of the range that has more than the limit; -1 without one.
  int64_t firstAbove(Range range, int64_t limit) const;
  std::vector<int64_t> all() const;
  /// Of a range within one block: what is above zero, of each position up to so many bytes, times its weight.
  double weighted(Range range, int64_t bytes, const std::vector<double> &weights) const;

  void add(Range range, int64_t bytes);

private:
  struct Block {
    int64_t least = 0, most = 0; // but for what is added
    int64_t added = 0;           // to each of its positions
  };
  void summarize(int64_t block);

  std::vector<int64_t> bytes_; // but for what is added to blocks
  std::vector<Block> blocks_;
};

} // namespace tessera::tiers
#endif
