// Optimizer updates in place, element by element, as PyTorch computes them.
#include "runtime/device/cpu/kernels/vector.h"

namespace tessera::rt::cpu::TESSERA_LEVEL {

/// One Adam step of the moments; returns the update to subtract.
static inline float adamStep(const UpdateStep &step, float g, float &m, float &v) {
  m += (g - m) * (1 - step.beta1);
  v = v * step.beta2 + (1 - step.beta2) * g * g;
  const float denominator = __builtin_sqrtf(v) / __builtin_sqrtf(step.correction2) + step.epsilon;
  return step.learningRate / step.correction1 * m / denominator;
}

void adamw(const UpdateStep &given, float *__restrict p, const float *__restrict g, float *__restrict m,
           float *__restrict v, int64_t n) {
  const UpdateStep step = given;
  const float keep = 1 - step.learningRate * step.decay;
  for (int64_t i = 0; i < n; ++i)
    p[i] = p[i] * keep - adamStep(step, g[i] * step.gradientScale, m[i], v[i]);
}

void adam(const UpdateStep &given, float *__restrict p, const float *__restrict g, float *__restrict m,
          float *__restrict v, int64_t n) {
  const UpdateStep step = given;
  for (int64_t i = 0; i < n; ++i)
    p[i] -= adamStep(step, g[i] * step.gradientScale + step.decay * p[i], m[i], v[i]);
}

void sgd(const UpdateStep &given, float *__restrict p, const float *__restrict g, int64_t n) {
  const UpdateStep step = given;
  for (int64_t i = 0; i < n; ++i)
    p[i] -= step.learningRate * (g[i] * step.gradientScale + step.decay * p[i]);
}

void sgdMomentum(const UpdateStep &given, float *__restrict p, const float *__restrict g,
                 float *__restrict momentum, int64_t n) {
  const UpdateStep step = given;
  for (int64_t i = 0; i < n; ++i) {
    momentum[i] = step.momentum * momentum[i] + (g[i] * step.gradientScale + step.decay * p[i]);
    p[i] -= step.learningRate * momentum[i];
  }
}

} // namespace tessera::rt::cpu::TESSERA_LEVEL
