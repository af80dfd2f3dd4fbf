// Matrix products of any strides with the library's own kernels: both operands are packed block by block.
#include "runtime/device/cpu/cpu.h"
#include "runtime/device/cpu/gemm.h"
#include "runtime/device/cpu/workspace.h"

#include <algorithm>

namespace tessera::rt::cpu {

namespace {
struct Block {
  int64_t row, rows, column, columns;
};

/// One block of C of one batch item.
void computeBlock(const Product &p, const Kernels &kernel, const ProductArgs &args, const Block &block,
                  std::array<int64_t, 3> offsets, float *area) {
  float *packedA = area, *packedB = packedA + blockRows * blockDepth,
        *held = packedB + blockDepth * blockColumns;
  const int64_t first = offsets[2] + block.row * p.c[0] + block.column * p.c[1];
  // Where C is not f32 by rows, the block is computed aside.
  const bool aside = p.c[1] != 1 || p.resultType != Element::F32;
  float *target = aside ? held : static_cast<float *>(args.c) + first;
  const int64_t ld = aside ? block.columns : p.c[0];
  const int64_t terms = p.terms();

  bool accumulate = !aside && p.accumulate;
  if (!accumulate && p.k == 0)
    for (int64_t i = 0; i < block.rows; ++i)
      std::fill_n(target + i * ld, block.columns, 0.0f);
  for (int64_t term = 0; term < terms; ++term) {
    const auto from = batchOffsets(p.summed, term);
    const int64_t a = offsets[0] + from[0] + block.row * p.a[0],
                  b = offsets[1] + from[1] + block.column * p.b[1];
    for (int64_t l = 0; l < p.k; l += blockDepth) {
      const int64_t depth = std::min(blockDepth, p.k - l);
      kernel.packPanels(depth, block.columns, {at(args.b, p.type, b + l * p.b[0]), p.b[0], p.b[1], p.type},
                        packedB);
      for (int64_t i = 0; i < block.rows; i += blockRows) {
        const int64_t rows = std::min(blockRows, block.rows - i);
        const void *source = at(args.a, p.type, a + i * p.a[0] + l * p.a[1]);
        const Strided packed = kernel.packBlock(rows, depth, {source, p.a[0], p.a[1], p.type}, packedA);
        kernel.product(rows, block.columns, depth, packed, packedB, depth, target + i * ld, ld, accumulate);
      }
      accumulate = true;
    }
  }
  float bias[blockColumns], row[blockColumns];
  if (p.bias)
    kernel.widen(p.resultType, at(args.bias, p.resultType, block.column), bias, block.columns);
  if (aside && p.accumulate)
    for (int64_t i = 0; i < block.rows; ++i) {
      readRow(p.resultType, at(args.c, p.resultType, first + i * p.c[0]), p.c[1], block.columns, row);
      for (int64_t j = 0; j < block.columns; ++j)
        held[i * ld + j] += row[j];
    }
  const bool later = p.preActivation != PreActivation::None;
  const Activation now = later ? Activation::None : p.activation;
  if (p.bias || now != Activation::None)
    kernel.finish(block.rows, block.columns, target, ld, p.bias ? bias : nullptr, now, PreActivation::None,
                  nullptr, 0);
  for (int64_t i = 0; aside && i < block.rows; ++i)
    writeRow(p.resultType, held + i * ld, at(args.c, p.resultType, first + i * p.c[0]), p.c[1],
             block.columns);
  if (later)
    finishBlock(p, args, first, block.rows, block.columns);
}
} // namespace

ProductFn prepareOwnProduct(const Product &product) {
  const Kernels &kernel = kernels();
  return [p = product, &kernel](const ProductArgs &args, Pool &pool) {
    const int64_t rowBlocks = (p.m + taskRows - 1) / taskRows,
                  columnBlocks = (p.n + blockColumns - 1) / blockColumns;
    const int64_t blocks = rowBlocks * columnBlocks;
    pool.parallelFor(p.items() * blocks, 1, [&](int64_t begin, int64_t end, int worker) {
      float *area = reinterpret_cast<float *>(args.workspace + worker * ownProductBytes(1));
      for (int64_t task = begin; task < end; ++task) {
        const int64_t row = task % blocks / columnBlocks * taskRows,
                      column = task % columnBlocks * blockColumns;
        computeBlock(p, kernel, args,
                     {row, std::min(taskRows, p.m - row), column, std::min(blockColumns, p.n - column)},
                     batchOffsets(p.batch, task / blocks), area);
      }
    });
  };
}

} // namespace tessera::rt::cpu
