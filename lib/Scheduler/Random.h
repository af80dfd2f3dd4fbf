// Random numbers that are the same with every standard library.
#ifndef TESSERA_LIB_SCHEDULER_RANDOM_H
#define TESSERA_LIB_SCHEDULER_RANDOM_H

#include <cmath>
#include <cstdint>
#include <numbers>

namespace tessera::scheduler {

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA'14, figure 14).
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}
  uint64_t bits() {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// In [0, 1).
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  double uniform(double from, double to) { return from + (to - from) * uniform(); }
  int below(int count) { return static_cast<int>(uniform() * count); }
  /// Mean 0, deviation 1 (Box and Muller).
  double normal() {
    double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

private:
  uint64_t state;
};

} // namespace tessera::scheduler
#endif
