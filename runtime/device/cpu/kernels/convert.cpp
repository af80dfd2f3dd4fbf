// Rows of bf16 and f16 from and to f32.
#include "runtime/device/cpu/kernels/half.h"

namespace tessera::rt::cpu::TESSERA_LEVEL {

void widen(Element type, const void *from, float *to, int64_t n) {
  withElements(type, from, [&](const auto *source) {
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes)
      store(to + i, load(source + i));
    for (; i < n; ++i)
      to[i] = widen(source[i]);
  });
}

template <typename T> static void narrowTo(const float *from, T *to, int64_t n) {
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    store(to + i, load(from + i));
  for (; i < n; ++i)
    storeOne(to + i, from[i]);
}

void narrow(Element type, const float *from, void *to, int64_t n) {
  switch (type) {
  case Element::BF16:
    return narrowTo(from, static_cast<BFloat16 *>(to), n);
  case Element::F16:
    return narrowTo(from, static_cast<Float16 *>(to), n);
  case Element::F32:
    __builtin_memcpy(to, from, n * 4);
  }
}

} // namespace tessera::rt::cpu::TESSERA_LEVEL
