// What follows a matrix product: bias, activation and residual of a block that is still in the cache.
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

template <Activation activation>
static void finishRows(int64_t m, int64_t n, float *c, int64_t ldc, const float *bias,
                       const float *residual) {
  for (int64_t i = 0; i < m; ++i, c += ldc) {
    float *__restrict row = c;
    const float *__restrict b = bias;
    if (bias)
      for (int64_t j = 0; j < n; ++j)
        row[j] = activate<activation>(row[j] + b[j]);
    else if (activation != Activation::None)
      for (int64_t j = 0; j < n; ++j)
        row[j] = activate<activation>(row[j]);
    if (residual) {
      const float *__restrict r = residual + i * ldc;
      for (int64_t j = 0; j < n; ++j)
        row[j] += r[j];
    }
  }
}

void finish(int64_t m, int64_t n, float *c, int64_t ldc, const float *bias, const float *residual,
            Activation activation) {
  switch (activation) {
  case Activation::None:
    return finishRows<Activation::None>(m, n, c, ldc, bias, residual);
  case Activation::GeluTanh:
    return finishRows<Activation::GeluTanh>(m, n, c, ldc, bias, residual);
  case Activation::GeluErf:
    return finishRows<Activation::GeluErf>(m, n, c, ldc, bias, residual);
  case Activation::Relu:
    return finishRows<Activation::Relu>(m, n, c, ldc, bias, residual);
  case Activation::Silu:
    return finishRows<Activation::Silu>(m, n, c, ldc, bias, residual);
  }
}

} // namespace tessera::rt::cpu::TESSERA_LEVEL
