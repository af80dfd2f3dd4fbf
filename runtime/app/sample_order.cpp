// See sample_order.h.
#include "runtime/app/sample_order.h"

#include <bit>

namespace tessera::rt {
namespace {

/// The finalizer of splitmix64 (Steele, Lea, Flood 2014).
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

} // namespace

int64_t SampleOrder::at(int64_t position) const {
  int64_t pass = position / samples, within = position % samples;
  if (!shuffle || samples < 2)
    return within;
  // Two halves of equal width that hold at least `samples` values.
  int half = (int(std::bit_width(uint64_t(samples - 1))) + 1) / 2;
  uint64_t mask = (uint64_t(1) << half) - 1, key = mix(mix(seed) ^ uint64_t(pass));
  uint64_t value = uint64_t(within);
  do {
    uint64_t left = value >> half, right = value & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      uint64_t next = left ^ (mix(key ^ (round << 60) ^ right) & mask);
      left = right;
      right = next;
    }
    value = left << half | right;
  } while (value >= uint64_t(samples));
  return int64_t(value);
}

} // namespace tessera::rt
