// Transpose of 4-byte elements: squares of one vector a side, exchanged in registers.
#include "runtime/device/cpu/kernels/transpose_square.h"

namespace tessera::rt::cpu::TESSERA_LEVEL {

void transpose(int64_t rows, int64_t columns, const float *source, int64_t lds, float *target, int64_t ldt) {
  transposeFrom(rows, columns, source, lds, target, ldt);
}

} // namespace tessera::rt::cpu::TESSERA_LEVEL
