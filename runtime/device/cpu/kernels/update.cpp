// Optimizer updates in place, element by element. This file alone of the folder is compiled without
// -ffast-math: an element comes out the same from a vector as from what is left behind the last one.
#include "runtime/device/cpu/kernels/vector.h"

namespace tessera::rt::cpu::TESSERA_LEVEL {

void adamw(const UpdateStep &given, float *__restrict p, const float *__restrict g, float *__restrict m,
           float *__restrict v, int64_t n) {
  const UpdateStep step = given;
  for (int64_t i = 0; i < n; ++i)
    updateAdamW(step, p[i], g[i], m[i], v[i]);
}

void adam(const UpdateStep &given, float *__restrict p, const float *__restrict g, float *__restrict m,
          float *__restrict v, int64_t n) {
  const UpdateStep step = given;
  for (int64_t i = 0; i < n; ++i)
    updateAdam(step, p[i], g[i], m[i], v[i]);
}

void sgd(const UpdateStep &given, float *__restrict p, const float *__restrict g, int64_t n) {
  const UpdateStep step = given;
  for (int64_t i = 0; i < n; ++i)
    updateSgd(step, p[i], g[i]);
}

void sgdMomentum(const UpdateStep &given, float *__restrict p, const float *__restrict g,
                 float *__restrict momentum, int64_t n) {
  const UpdateStep step = given;
  for (int64_t i = 0; i < n; ++i)
    updateSgdMomentum(step, p[i], g[i], momentum[i]);
}

} // namespace tessera::rt::cpu::TESSERA_LEVEL
