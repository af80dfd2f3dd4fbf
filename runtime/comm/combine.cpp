// See combine.h. Elements pass through a small block of accumulators, so that loops are plain and `out` may
// alias.
#include "runtime/comm/combine.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace tessera::rt {
namespace {

struct BF16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

float load(BF16 value) { return std::bit_cast<float>(uint32_t(value.bits) << 16); }

BF16 store(float value, BF16) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value))
    return {uint16_t((bits >> 16) | 0x40)};
  return {uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

float load(F16 value) {
  uint32_t sign = uint32_t(value.bits & 0x8000) << 16, exponent = (value.bits >> 10) & 31,
           mantissa = value.bits & 0x3ff;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13);
  if (exponent != 0)
    return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  float magnitude = float(mantissa) * 0x1p-24f;
  return sign ? -magnitude : magnitude;
}

F16 store(float value, F16) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint16_t sign = uint16_t(bits >> 16 & 0x8000);
  float magnitude = std::fabs(value);
  if (std::isnan(value))
    return {uint16_t(sign | 0x7e00)};
  if (magnitude >= 65520.0f)
    return {uint16_t(sign | 0x7c00)};
  // Below the normal numbers the spacing is 2^-24; the conversion of the addition rounds to nearest even.
  if (magnitude < 0x1p-14f)
    return {uint16_t(sign | (std::bit_cast<uint32_t>(magnitude + 0.5f) - 0x3f000000))};
  uint32_t rounded = (bits & 0x7fffffff) + 0xfff + ((bits >> 13) & 1);
  return {uint16_t(sign | ((rounded >> 13) - (112 << 10)))};
}

/// Arithmetic of integers is done unsigned, where overflow wraps.
template <typename T> T add(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return T(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b));
  else
    return a + b;
}

/// `b != b` keeps a NaN that comes later; one that came earlier wins the comparison.
template <typename T> T larger(T a, T b) { return b > a || b != b ? b : a; }

constexpr int64_t blockElements = 1024;

/// A block of elements of all arrays, combined level by level.
template <typename T, typename Accumulator> struct BlockSum {
  Reduction reduction;
  const void *const *arrays;
  const std::vector<SumLevel> &levels;
  int64_t begin, length;

  static Accumulator value(T element) {
    if constexpr (std::is_arithmetic_v<T>)
      return element;
    else
      return load(element);
  }
  template <typename Term> void take(bool first, Accumulator *sums, Term &&term) const {
    if (first)
      for (int64_t e = 0; e < length; ++e)
        sums[e] = term(e);
    else if (reduction == Reduction::Sum)
      for (int64_t e = 0; e < length; ++e)
        sums[e] = add(sums[e], term(e));
    else
      for (int64_t e = 0; e < length; ++e)
        sums[e] = larger(sums[e], term(e));
  }
  /// The node of level `level` whose first array is number `first`.
  void node(size_t level, int64_t first, Accumulator *sums) const {
    for (int64_t i = 0; i < levels[level].count; ++i) {
      int64_t child = first + i * levels[level].stride;
      if (level + 1 == levels.size()) {
        const T *from = static_cast<const T *>(arrays[child]) + begin;
        take(i == 0, sums, [&](int64_t e) { return value(from[e]); });
      } else if (i == 0) {
        node(level + 1, child, sums);
      } else {
        Accumulator terms[blockElements];
        node(level + 1, child, terms);
        take(false, sums, [&](int64_t e) { return terms[e]; });
      }
    }
  }
};

template <typename T, typename Accumulator>
void combineAs(Reduction reduction, const void *const *arrays, const std::vector<SumLevel> &levels, void *out,
               int64_t count) {
  Accumulator sums[blockElements];
  for (int64_t begin = 0; begin < count; begin += blockElements) {
    int64_t length = std::min(blockElements, count - begin);
    BlockSum<T, Accumulator>{reduction, arrays, levels, begin, length}.node(0, 0, sums);
    T *to = static_cast<T *>(out) + begin;
    for (int64_t e = 0; e < length; ++e) {
      if constexpr (std::is_arithmetic_v<T>)
        to[e] = sums[e];
      else
        to[e] = store(sums[e], T());
    }
  }
}

template <typename T>
void combinePlain(Reduction reduction, const void *const *arrays, const std::vector<SumLevel> &levels,
                  void *out, int64_t count) {
  combineAs<T, T>(reduction, arrays, levels, out, count);
}

} // namespace

void combine(DType type, Reduction reduction, const void *const *arrays, const std::vector<SumLevel> &levels,
             void *out, int64_t count) {
  auto run = [&](auto function) { function(reduction, arrays, levels, out, count); };
  switch (type) {
  case DType::F64:
    return run(combinePlain<double>);
  case DType::F32:
    return run(combinePlain<float>);
  case DType::BF16:
    return run(combineAs<BF16, float>);
  case DType::F16:
    return run(combineAs<F16, float>);
  case DType::I64:
    return run(combinePlain<int64_t>);
  case DType::I32:
    return run(combinePlain<int32_t>);
  case DType::I16:
    return run(combinePlain<int16_t>);
  case DType::I8:
    return run(combinePlain<int8_t>);
  case DType::U64:
    return run(combinePlain<uint64_t>);
  case DType::U32:
    return run(combinePlain<uint32_t>);
  case DType::U16:
    return run(combinePlain<uint16_t>);
  case DType::U8:
    return run(combinePlain<uint8_t>);
  case DType::Bool:
    // `or` and the maximum of 0 and 1 are the same.
    return combinePlain<uint8_t>(Reduction::Max, arrays, levels, out, count);
  }
}

} // namespace tessera::rt
