// Loops over one row or one flat range: plain loops, vectorised by the compiler.
#include "runtime/device/cpu/kernels/vector.h"

namespace tessera::rt::cpu::TESSERA_LEVEL {

float rowMax(const float *x, int64_t n) {
  int32_t unordered = 0;
  for (int64_t i = 0; i < n; ++i)
    unordered |= x[i] != x[i];
  return unordered ? __builtin_nanf("") : largest(x, n, minusInfinity);
}

float expSum(const float *x, int64_t n, float shift) {
  float sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += exponential(x[i] - shift);
  return sum;
}

void expScaled(const float *x, float *y, int64_t n, float shift, float scale) {
  // In place needs a loop of its own: the vectorised one is guarded against overlap.
  if (x == y) {
    for (int64_t i = 0; i < n; ++i)
      y[i] = scale * exponential(y[i] - shift);
    return;
  }
  for (int64_t i = 0; i < n; ++i)
    y[i] = scale * exponential(x[i] - shift);
}

double sumSquares(const float *x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += double(x[i]) * double(x[i]);
  return sum;
}

void add(float *__restrict y, const float *__restrict x, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    y[i] += x[i];
}

} // namespace tessera::rt::cpu::TESSERA_LEVEL
