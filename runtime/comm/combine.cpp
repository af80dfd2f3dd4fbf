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

template <typename T, typename Accumulator>
void combineAs(Reduction reduction, const void *const *arrays, int64_t numArrays, void *out, int64_t count) {
  Accumulator sums[blockElements];
  auto value = [](T element) -> Accumulator {
    if constexpr (std::is_arithmetic_v<T>)
      return element;
    else
      return load(element);
  };
  for (int64_t begin = 0; begin < count; begin += blockElements) {
    int64_t length = std::min(blockElements, count - begin);
    for (int64_t i = 0; i < numArrays; ++i) {
      const T *from = static_cast<const T *>(arrays[i]) + begin;
      if (i == 0)
        for (int64_t e = 0; e < length; ++e)
          sums[e] = value(from[e]);
      else if (reduction == Reduction::Sum)
        for (int64_t e = 0; e < length; ++e)
          sums[e] = add(sums[e], value(from[e]));
      else
        for (int64_t e = 0; e < length; ++e)
          sums[e] = larger(sums[e], value(from[e]));
    }
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
void combinePlain(Reduction reduction, const void *const *arrays, int64_t numArrays, void *out,
                  int64_t count) {
  combineAs<T, T>(reduction, arrays, numArrays, out, count);
}

} // namespace

void combine(DType type, Reduction reduction, const void *const *arrays, int64_t numArrays, void *out,
             int64_t count) {
  auto run = [&](auto function) { function(reduction, arrays, numArrays, out, count); };
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
    return combinePlain<uint8_t>(Reduction::Max, arrays, numArrays, out, count);
  }
}

} // namespace tessera::rt
