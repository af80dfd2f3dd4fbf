// Elements of bf16 and f16 as f32, one and a vector at a time. Included by kernel files only.
#pragma once

#include "runtime/device/cpu/kernels/vector.h"

namespace tessera::rt::cpu::TESSERA_LEVEL {

struct BFloat16 {
  uint16_t bits;
};
typedef _Float16 Float16;

typedef uint32_t Bits __attribute__((vector_size(lanes * 4)));
typedef uint16_t HalfBits __attribute__((vector_size(lanes * 2), aligned(2), may_alias));
typedef _Float16 HalfFloats __attribute__((vector_size(lanes * 2), aligned(2), may_alias));

static inline float widen(float x) { return x; }
static inline float widen(BFloat16 x) { return __builtin_bit_cast(float, uint32_t(x.bits) << 16); }
static inline float widen(Float16 x) { return x; }

static inline Vector load(const BFloat16 *p) {
  const Bits wide = __builtin_convertvector(*reinterpret_cast<const HalfBits *>(p), Bits);
  return __builtin_bit_cast(Vector, wide << 16);
}
static inline Vector load(const Float16 *p) {
  return __builtin_convertvector(*reinterpret_cast<const HalfFloats *>(p), Vector);
}

// To nearest, ties to even; a NaN stays one.
static inline void store(BFloat16 *p, Vector v) {
  const Bits bits = __builtin_bit_cast(Bits, v), high = bits >> 16;
  const Bits rounded = (bits + 0x7fff + (high & 1)) >> 16;
  *reinterpret_cast<HalfBits *>(p) = __builtin_convertvector(v != v ? high | 0x40 : rounded, HalfBits);
}
static inline void store(Float16 *p, Vector v) {
  *reinterpret_cast<HalfFloats *>(p) = __builtin_convertvector(v, HalfFloats);
}
static inline void storeOne(BFloat16 *p, float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x), high = bits >> 16;
  p->bits = uint16_t(x != x ? high | 0x40 : (bits + 0x7fff + (high & 1)) >> 16);
}
static inline void storeOne(Float16 *p, float x) { *p = Float16(x); }

/// fn(data as elements of `type`).
template <typename Fn> static inline auto withElements(Element type, const void *data, Fn &&fn) {
  switch (type) {
  case Element::BF16:
    return fn(static_cast<const BFloat16 *>(data));
  case Element::F16:
    return fn(static_cast<const Float16 *>(data));
  case Element::F32:
    break;
  }
  return fn(static_cast<const float *>(data));
}

} // namespace tessera::rt::cpu::TESSERA_LEVEL
