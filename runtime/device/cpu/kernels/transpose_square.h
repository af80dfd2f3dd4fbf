// The transpose of a square of vectors in registers. Included by kernel files only.
#pragma once

#include "runtime/device/cpu/kernels/vector.h"

#include <utility>

namespace tessera::rt::cpu::TESSERA_LEVEL {

/// One step of the recursive transpose: exchanges the off-diagonal `Step` x `Step` squares of two rows.
template <int Step, int... Lane>
static inline void exchange(Vector &a, Vector &b, std::integer_sequence<int, Lane...>) {
  const Vector upper = __builtin_shufflevector(a, b, (Lane & Step ? Lane - Step + lanes : Lane)...);
  b = __builtin_shufflevector(a, b, (Lane & Step ? Lane + lanes : Lane + Step)...);
  a = upper;
}

template <int Step> static inline void exchangeRows(Vector (&rows)[lanes]) {
  for (int i = 0; i < lanes; ++i)
    if (!(i & Step))
      exchange<Step>(rows[i], rows[i + Step], std::make_integer_sequence<int, lanes>());
}

static inline void transposeSquare(Vector (&rows)[lanes]) {
  exchangeRows<1>(rows);
  exchangeRows<2>(rows);
  exchangeRows<4>(rows);
  if constexpr (lanes == 16)
    exchangeRows<lanes / 2>(rows);
}

} // namespace tessera::rt::cpu::TESSERA_LEVEL
