// In which order samples are used: as stored, or permuted anew for every pass over the data.
#pragma once

#include <cstdint>

namespace tessera::rt {

/// Maps positions 0, 1, 2, ... of a run to samples. The permutation of a pass is a keyed bijection (a Feistel
/// network walked until it stays inside of the range), so that it takes no memory and is the same on every
/// rank.
class SampleOrder {
public:
  /// `samples` > 0.
  SampleOrder(int64_t samples, bool shuffle, uint64_t seed)
      : samples(samples), shuffle(shuffle), seed(seed) {}

  int64_t at(int64_t position) const;

private:
  int64_t samples;
  bool shuffle;
  uint64_t seed;
};

} // namespace tessera::rt
