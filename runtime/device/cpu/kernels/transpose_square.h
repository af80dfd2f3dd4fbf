// The transpose of a square of vectors in registers. Included by kernel files only.
#pragma once

#include "runtime/device/cpu/kernels/half.h"

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

template <typename T> static inline void square(const T *source, int64_t lds, float *target, int64_t ldt) {
  Vector rows[lanes];
  for (int i = 0; i < lanes; ++i)
    rows[i] = load(source + i * lds);
  transposeSquare(rows);
  for (int i = 0; i < lanes; ++i)
    store(target + i * ldt, rows[i]);
}

/// target[j * ldt + i] = source[i * lds + j].
template <typename T>
static inline void transposeFrom(int64_t rows, int64_t columns, const T *source, int64_t lds, float *target,
                                 int64_t ldt) {
  const int64_t wholeRows = rows / lanes * lanes, wholeColumns = columns / lanes * lanes;
  for (int64_t i = 0; i < wholeRows; i += lanes)
    for (int64_t j = 0; j < wholeColumns; j += lanes)
      square(source + i * lds + j, lds, target + j * ldt + i, ldt);
  for (int64_t j = wholeColumns; j < columns; ++j)
    for (int64_t i = 0; i < wholeRows; ++i)
      target[j * ldt + i] = widen(source[i * lds + j]);
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = wholeRows; i < rows; ++i)
      target[j * ldt + i] = widen(source[i * lds + j]);
}

} // namespace tessera::rt::cpu::TESSERA_LEVEL
