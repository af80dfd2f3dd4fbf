// What products have in common once a block of C is there: rows of any type, activations, sums of an operand.
#include "runtime/device/cpu/cpu.h"
#include "runtime/device/cpu/gemm.h"
#include "runtime/device/cpu/workspace.h"

#include <algorithm>

namespace tessera::rt::cpu {

void readRow(Element type, const void *from, int64_t stride, int64_t n, float *to) {
  uint16_t gathered[blockColumns];
  if (stride != 1 && type == Element::F32) {
    for (int64_t j = 0; j < n; ++j)
      to[j] = static_cast<const float *>(from)[j * stride];
    return;
  }
  if (stride != 1) {
    for (int64_t j = 0; j < n; ++j)
      gathered[j] = static_cast<const uint16_t *>(from)[j * stride];
    from = gathered;
  }
  kernels().widen(type, from, to, n);
}

void writeRow(Element type, const float *from, void *to, int64_t stride, int64_t n) {
  if (stride == 1)
    return kernels().narrow(type, from, to, n);
  if (type == Element::F32) {
    for (int64_t j = 0; j < n; ++j)
      static_cast<float *>(to)[j * stride] = from[j];
    return;
  }
  uint16_t rounded[blockColumns];
  kernels().narrow(type, from, rounded, n);
  for (int64_t j = 0; j < n; ++j)
    static_cast<uint16_t *>(to)[j * stride] = rounded[j];
}

void finishBlock(const Product &p, const ProductArgs &args, int64_t first, int64_t rows, int64_t columns) {
  const Kernels &kernel = kernels();
  if (p.resultType == Element::F32 && p.c[1] == 1)
    return kernel.finish(rows, columns, static_cast<float *>(args.c) + first, p.c[0], nullptr, p.activation,
                         p.preActivation, static_cast<float *>(args.preActivation) + first, p.c[0]);
  float c[blockColumns], pre[blockColumns];
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; j += blockColumns) {
      const int64_t n = std::min(blockColumns, columns - j), place = first + i * p.c[0] + j * p.c[1];
      void *operand = at(args.preActivation, p.resultType, place), *result = at(args.c, p.resultType, place);
      readRow(p.resultType, result, p.c[1], n, c);
      if (p.preActivation == PreActivation::Given)
        readRow(p.resultType, operand, p.c[1], n, pre);
      kernel.finish(1, n, c, n, nullptr, p.activation, p.preActivation, pre, n);
      if (p.preActivation == PreActivation::Kept)
        writeRow(p.resultType, pre, operand, p.c[1], n);
      writeRow(p.resultType, c, result, p.c[1], n);
    }
}

void OperandSums::compute(const void *operand, void *sums, Pool &pool) const {
  const Kernels &kernel = kernels();
  int64_t terms = 1;
  for (const auto &[size, stride] : dims)
    terms *= size;
  pool.parallelFor((count + blockColumns - 1) / blockColumns, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * blockColumns, n = std::min(blockColumns, count - first);
      float sum[blockColumns] = {}, row[blockColumns];
      for (int64_t term = 0; term < terms; ++term) {
        int64_t place = first * stride;
        for (int64_t rest = term; const auto &[size, along] : dims) {
          place += rest % size * along;
          rest /= size;
        }
        for (int64_t l = 0; l < k; ++l, place += kStride) {
          const void *from = at(operand, type, place);
          const bool direct = type == Element::F32 && stride == 1;
          if (!direct)
            readRow(type, from, stride, n, row);
          kernel.add(sum, direct ? static_cast<const float *>(from) : row, n);
        }
      }
      kernel.narrow(resultType, sum, at(sums, resultType, first), n);
    }
  });
}

} // namespace tessera::rt::cpu
