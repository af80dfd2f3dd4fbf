// Vectors of one CPU level and the functions every kernel file shares. Included by kernel files only.
#pragma once

#include "runtime/device/cpu/kernels/kernels.h"
#include "runtime/device/cpu/workspace.h"

#ifndef TESSERA_LEVEL
#error "kernel files are compiled per CPU level"
#endif

namespace tessera::rt::cpu::TESSERA_LEVEL {

#ifdef __AVX512F__
constexpr int lanes = 16;
/// Rows of the register tile; two vectors wide, so 24 of 32 registers accumulate.
constexpr int tileRows = 12;
#else
constexpr int lanes = 8;
constexpr int tileRows = 6;
#endif
constexpr int panelWidth = 2 * lanes;
static_assert(panelColumns % panelWidth == 0);

typedef float Vector __attribute__((vector_size(lanes * 4), aligned(4), may_alias));

static inline Vector load(const float *p) { return *reinterpret_cast<const Vector *>(p); }
static inline void store(float *p, Vector v) { *reinterpret_cast<Vector *>(p) = v; }

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/// fn(j) for `n` elements and those behind them up to a whole vector: four vectors side by side, then one by
/// one. A rest that is no vector would be done by the element, which of a short row takes most of the time.
template <typename Fn> static inline void forWholeVectors(int64_t n, Fn fn) {
  int64_t j = 0;
  for (; j + 4 * lanes <= n; j += 4 * lanes)
    for (int i = 0; i < 4 * lanes; ++i)
      fn(j + i);
  for (; j < n; j += lanes)
    for (int lane = 0; lane < lanes; ++lane)
      fn(j + lane);
}

/// All lanes of a vector in one, each half with the other.
template <typename Fn> static inline float acrossLanes(Vector v, Fn fn) {
  float x[lanes];
  store(x, v);
  for (int half = lanes / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane)
      x[lane] = fn(x[lane], x[lane + half]);
  return x[0];
}

constexpr float minusInfinity = -__builtin_inff();

/// e^x for x up to 88, 0 below -87.3, NaN for NaN; relative error below 2e-7. Cephes' polynomial after a
/// two-step range reduction, which reassociation would undo.
static inline float exponential(float x) {
#pragma clang fp reassociate(off) contract(fast)
  const float clamped = x < -87.3f ? -87.3f : x;
  const float n = __builtin_rintf(clamped * 1.44269504f);
  const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const float power = __builtin_bit_cast(float, (int32_t(n) + 127) << 23);
  return x < -87.3f ? 0.0f : p * power;
}

/// The largest of x[0..n) and `start`; NaN is passed over. The compiler may not vectorise this reduction by
/// itself as long as NaN and signed zeros mean something.
static inline float largest(const float *x, int64_t n, float start) {
  Vector best[4];
  for (Vector &v : best)
    v = Vector{} + start;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes)
    for (int j = 0; j < 4; ++j) {
      const Vector v = load(x + i + j * lanes);
      best[j] = v > best[j] ? v : best[j];
    }
  for (; i + lanes <= n; i += lanes) {
    const Vector v = load(x + i);
    best[0] = v > best[0] ? v : best[0];
  }
  for (int j = 1; j < 4; ++j)
    best[0] = best[j] > best[0] ? best[j] : best[0];
  float result = acrossLanes(best[0], [](float a, float b) { return b > a ? b : a; });
  for (; i < n; ++i)
    result = x[i] > result ? x[i] : result;
  return result;
}

// Defined in product.cpp; the attention kernels call them directly.
void product(int64_t m, int64_t n, int64_t k, Strided a, const float *panels, int64_t panelDepth, float *c,
             int64_t ldc, bool accumulate);
void productRows(int64_t m, int64_t n, int64_t k, Strided a, const float *b, int64_t ldb, float *c,
                 int64_t ldc, bool accumulate);
void packPanels(int64_t k, int64_t n, Source b, float *panels);
Strided packBlock(int64_t m, int64_t k, Source a, float *target);

// panels.cpp
void packRows(int64_t m, int64_t k, Source a, float *panels);
void productPanels(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c, int64_t ldc,
                   bool accumulate);

// epilogue.cpp
void finish(int64_t m, int64_t n, float *c, int64_t ldc, const float *bias, Activation activation,
            PreActivation use, float *pre, int64_t ldPre);

// convert.cpp
void widen(Element type, const void *from, float *to, int64_t n);
void narrow(Element type, const float *from, void *to, int64_t n);

// transpose.cpp
void transpose(int64_t rows, int64_t columns, const float *source, int64_t lds, float *target, int64_t ldt);

// attention_forward.cpp, attention_backward.cpp
void attentionForward(const AttentionShape &, const AttentionCall &, int64_t b, int64_t m, int64_t rowBegin,
                      int64_t rowEnd, float *scratch);
void attentionBackward(const AttentionShape &, const AttentionCall &, int64_t b, int64_t m, float *scratch);

// rows.cpp
float rowMax(const float *x, int64_t n);
float expSum(const float *x, int64_t n, float shift);
void expScaled(const float *x, float *y, int64_t n, float shift, float scale);
double sumSquares(const float *x, int64_t n);
void add(float *y, const float *x, int64_t n);

// update.cpp
void adamw(const UpdateStep &, const UpdateState &, const float *g, const UpdateState &, int64_t n);
void adam(const UpdateStep &, const UpdateState &, const float *g, const UpdateState &, int64_t n);
void sgd(const UpdateStep &, const UpdateState &, const float *g, const UpdateState &, int64_t n);
void sgdMomentum(const UpdateStep &, const UpdateState &, const float *g, const UpdateState &, int64_t n);

} // namespace tessera::rt::cpu::TESSERA_LEVEL
