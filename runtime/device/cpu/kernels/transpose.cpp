// Transpose of 4-byte elements: squares of one vector a side, exchanged in registers.
#include "runtime/device/cpu/kernels/transpose_square.h"

namespace tessera::rt::cpu::TESSERA_LEVEL {

static inline void square(const float *source, int64_t lds, float *target, int64_t ldt) {
  Vector rows[lanes];
  for (int i = 0; i < lanes; ++i)
    rows[i] = load(source + i * lds);
  transposeSquare(rows);
  for (int i = 0; i < lanes; ++i)
    store(target + i * ldt, rows[i]);
}

void transpose(int64_t rows, int64_t columns, const float *source, int64_t lds, float *target, int64_t ldt) {
  const int64_t wholeRows = rows / lanes * lanes, wholeColumns = columns / lanes * lanes;
  for (int64_t i = 0; i < wholeRows; i += lanes)
    for (int64_t j = 0; j < wholeColumns; j += lanes)
      square(source + i * lds + j, lds, target + j * ldt + i, ldt);
  for (int64_t j = wholeColumns; j < columns; ++j)
    for (int64_t i = 0; i < wholeRows; ++i)
      target[j * ldt + i] = source[i * lds + j];
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = wholeRows; i < rows; ++i)
      target[j * ldt + i] = source[i * lds + j];
}

} // namespace tessera::rt::cpu::TESSERA_LEVEL
