// Single elements of bf16 and f16 as f32: on GPUs, on the host that stands in for one, and in tests.
#pragma once

#include "runtime/device/element.h"

#include <stdint.h>

namespace tessera::rt {

struct BFloat16 {
  uint16_t bits;
};
typedef _Float16 Float16;

inline float widen(float x) { return x; }
inline float widen(BFloat16 x) { return __builtin_bit_cast(float, uint32_t(x.bits) << 16); }
inline float widen(Float16 x) { return x; }

// To nearest, ties to even; a NaN stays one.
inline void narrow(float x, float &to) { to = x; }
inline void narrow(float x, BFloat16 &to) {
  uint32_t bits = __builtin_bit_cast(uint32_t, x), high = bits >> 16;
  to.bits = uint16_t(x != x ? high | 0x40 : (bits + 0x7fff + (high & 1)) >> 16);
}
inline void narrow(float x, Float16 &to) { to = Float16(x); }

/// Element `i` of an array of `type`.
inline float readElement(Element type, const void *data, int64_t i) {
  switch (type) {
  case Element::BF16:
    return widen(static_cast<const BFloat16 *>(data)[i]);
  case Element::F16:
    return widen(static_cast<const Float16 *>(data)[i]);
  case Element::F32:
    break;
  }
  return static_cast<const float *>(data)[i];
}
inline void writeElement(Element type, void *data, int64_t i, float value) {
  switch (type) {
  case Element::BF16:
    return narrow(value, static_cast<BFloat16 *>(data)[i]);
  case Element::F16:
    return narrow(value, static_cast<Float16 *>(data)[i]);
  case Element::F32:
    narrow(value, static_cast<float *>(data)[i]);
  }
}

} // namespace tessera::rt
