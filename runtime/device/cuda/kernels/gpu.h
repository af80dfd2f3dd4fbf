// What the library's kernels see of a GPU. They are compiled twice: for NVIDIA's GPUs by clang alone, without
// CUDA's headers, and for the host, where runtime/device/cuda/check/simt.h plays the GPU and a kernel's twin
// takes its parameters as cuLaunchKernel does.
#pragma once

#include "runtime/device/cuda/kernels/arguments.h"

#ifdef __NVPTX__
#define TSR_KERNEL(name, Arguments) extern "C" __attribute__((device_kernel)) void tsr_##name(Arguments a)
#define TSR_SHARED static __attribute__((address_space(3)))
#else
#include "runtime/device/cuda/check/simt.h"
#define TSR_KERNEL(name, Arguments)                                                                          \
  static void name(Arguments a);                                                                             \
  extern "C" void tsr_##name##_twin(void **parameters) { name(*static_cast<Arguments *>(parameters[0])); }   \
  static void name(Arguments a)
#define TSR_SHARED static thread_local
#endif

namespace tessera::rt::cuda {

constexpr int64_t lanes = 32;

#ifdef __NVPTX__
inline int64_t threadIndex() { return __nvvm_read_ptx_sreg_tid_x(); }
inline int64_t blockIndex() { return __nvvm_read_ptx_sreg_ctaid_x(); }
inline uint32_t shuffle(uint32_t value, uint32_t distance) {
  return __nvvm_shfl_sync_bfly_i32(-1, value, distance, 31);
}
inline void syncWarp() { __nvvm_bar_warp_sync(-1); }
inline void syncBlock() { __syncthreads(); }
inline float log2(float x) { return __nvvm_lg2_approx_f(x); }
#else
inline int64_t threadIndex() { return tsr_simt_thread(); }
inline int64_t blockIndex() { return tsr_simt_block(); }
inline uint32_t shuffle(uint32_t value, uint32_t distance) {
  return tsr_simt_shuffle_xor(-1, value, distance, 31);
}
inline void syncWarp() { tsr_simt_sync_warp(-1); }
inline void syncBlock() { tsr_simt_sync_block(); }
inline float log2(float x) { return __builtin_log2f(x); }
#endif

constexpr float infinity = __builtin_inff();

/// exp(x), to 2 ulp, by the reduction and polynomial that compiled kernels use.
inline float exponential(float x) {
  x = 89.5f < x ? 89.5f : x;
  x = -104.0f > x ? -104.0f : x;
  const float shift = 12582912.0f; // 1.5 * 2^23: rounds to an integer, which then stands in the low bits
  float shifted = __builtin_fmaf(x, 1.44269504088896341f, shift), n = shifted - shift;
  float r = __builtin_fmaf(n, -0.693359375f, x);
  r = __builtin_fmaf(n, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = __builtin_fmaf(p, r, 1.3981999507e-3f);
  p = __builtin_fmaf(p, r, 8.3334519073e-3f);
  p = __builtin_fmaf(p, r, 4.1665795894e-2f);
  p = __builtin_fmaf(p, r, 1.6666665459e-1f);
  p = __builtin_fmaf(p, r, 5.0000001201e-1f);
  float result = __builtin_fmaf(p, r * r, r + 1);
  int32_t exponent = __builtin_bit_cast(int32_t, shifted) - __builtin_bit_cast(int32_t, shift),
          half = exponent >> 1;
  result *= __builtin_bit_cast(float, (half + 127) << 23);
  return result * __builtin_bit_cast(float, (exponent - half + 127) << 23);
}

inline float logarithm(float x) { return log2(x) * 0.69314718056f; }

inline float larger(float a, float b) { return a > b || a != a ? a : b; } // NaN stays

/// The same on every lane.
inline float warpSum(float value) {
  for (uint32_t distance = lanes / 2; distance > 0; distance /= 2)
    value += __builtin_bit_cast(float, shuffle(__builtin_bit_cast(uint32_t, value), distance));
  return value;
}
inline float warpMax(float value) {
  for (uint32_t distance = lanes / 2; distance > 0; distance /= 2)
    value = larger(value, __builtin_bit_cast(float, shuffle(__builtin_bit_cast(uint32_t, value), distance)));
  return value;
}

/// The element that this thread has of `count`, or one beyond them.
inline int64_t elementIndex() { return blockIndex() * elementThreads + threadIndex(); }

inline void copyElement(void *target, int64_t to, const void *source, int64_t from, int32_t bytes) {
  if (bytes == 4)
    static_cast<uint32_t *>(target)[to] = static_cast<const uint32_t *>(source)[from];
  else if (bytes == 8)
    static_cast<uint64_t *>(target)[to] = static_cast<const uint64_t *>(source)[from];
  else if (bytes == 2)
    static_cast<uint16_t *>(target)[to] = static_cast<const uint16_t *>(source)[from];
  else
    static_cast<uint8_t *>(target)[to] = static_cast<const uint8_t *>(source)[from];
}

} // namespace tessera::rt::cuda
