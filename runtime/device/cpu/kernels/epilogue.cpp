// What follows a matrix product: bias and activation, or its derivative, on a block that is still in the
// cache.
#include "runtime/device/cpu/kernels/vector.h"

namespace tessera::rt::cpu::TESSERA_LEVEL {

/// x / (1 + e^-y)
static inline float gated(float x, float y) { return x / (1 + exponential(-y < 87.0f ? -y : 87.0f)); }

/// erf, by an odd rational function on [-4, 4]; 6 ulp.
static inline float errorFunction(float x) {
  const float low = x < -4.0f ? -4.0f : x, z = low > 4.0f ? 4.0f : low, s = z * z;
  float p = -2.72614225801306e-10f;
  p = p * s + 2.77068142495902e-08f;
  p = p * s - 2.10102402082508e-06f;
  p = p * s - 5.69250639462346e-05f;
  p = p * s - 7.34990630326855e-04f;
  p = p * s - 2.95459980854025e-03f;
  p = p * s - 1.60960333262415e-02f;
  float q = -1.45660718464996e-05f;
  q = q * s - 2.13374055278905e-04f;
  q = q * s - 1.68282697438203e-03f;
  q = q * s - 7.37332916720468e-03f;
  q = q * s - 1.42647390514189e-02f;
  return z * p / q;
}

template <Activation activation> static inline float activate(float x) {
  if constexpr (activation == Activation::GeluTanh)
    // (1 + tanh(u)) / 2 is 1 / (1 + e^-2u).
    return gated(x, 1.5957691216f * (x + 0.044715f * x * x * x));
  if constexpr (activation == Activation::GeluErf)
    return 0.5f * x * (1 + errorFunction(x * 0.7071067812f));
  if constexpr (activation == Activation::Relu)
    return x < 0 ? 0.0f : x;
  if constexpr (activation == Activation::Silu)
    return gated(x, x);
  return x;
}

/// The derivative of the activation at x.
template <Activation activation> static inline float slope(float x) {
  if constexpr (activation == Activation::GeluTanh) {
    const float s = gated(1, 1.5957691216f * (x + 0.044715f * x * x * x));
    return s + x * s * (1 - s) * (1.5957691216f + 0.21406445f * x * x);
  }
  if constexpr (activation == Activation::GeluErf)
    return 0.5f * (1 + errorFunction(x * 0.7071067812f)) + x * 0.3989422804f * exponential(-0.5f * x * x);
  if constexpr (activation == Activation::Relu)
    return x > 0 ? 1 : 0;
  if constexpr (activation == Activation::Silu) {
    const float s = gated(1, x);
    return s + x * s * (1 - s);
  }
  return 1;
}

template <Activation activation, PreActivation use, bool biased>
static void finishRows(int64_t m, int64_t n, float *c, int64_t ldc, const float *bias, float *pre,
                       int64_t ldPre) {
  for (int64_t i = 0; i < m; ++i) {
    float *__restrict row = c + i * ldc;
    float *__restrict x = pre + i * ldPre;
    for (int64_t j = 0; j < n; ++j) {
      const float value = biased ? row[j] + bias[j] : row[j];
      if constexpr (use == PreActivation::Kept)
        x[j] = value;
      row[j] = use == PreActivation::Given ? value * slope<activation>(x[j]) : activate<activation>(value);
    }
  }
}

template <Activation activation>
static void finishUse(int64_t m, int64_t n, float *c, int64_t ldc, const float *bias, PreActivation use,
                      float *pre, int64_t ldPre) {
  using enum PreActivation;
  const auto run =
      use == None   ? (bias ? finishRows<activation, None, true> : finishRows<activation, None, false>)
      : use == Kept ? (bias ? finishRows<activation, Kept, true> : finishRows<activation, Kept, false>)
                    : (bias ? finishRows<activation, Given, true> : finishRows<activation, Given, false>);
  run(m, n, c, ldc, bias, pre, ldPre);
}

void finish(int64_t m, int64_t n, float *c, int64_t ldc, const float *bias, Activation activation,
            PreActivation use, float *pre, int64_t ldPre) {
  switch (activation) {
  case Activation::None:
    return finishUse<Activation::None>(m, n, c, ldc, bias, use, pre, ldPre);
  case Activation::GeluTanh:
    return finishUse<Activation::GeluTanh>(m, n, c, ldc, bias, use, pre, ldPre);
  case Activation::GeluErf:
    return finishUse<Activation::GeluErf>(m, n, c, ldc, bias, use, pre, ldPre);
  case Activation::Relu:
    return finishUse<Activation::Relu>(m, n, c, ldc, bias, use, pre, ldPre);
  case Activation::Silu:
    return finishUse<Activation::Silu>(m, n, c, ldc, bias, use, pre, ldPre);
  }
}

} // namespace tessera::rt::cpu::TESSERA_LEVEL
