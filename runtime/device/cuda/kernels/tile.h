// A tile of a product whose factors are read by functions: what a block of gemmThreads computes, 16 terms at
// a time through shared memory.
#pragma once

#include "runtime/device/cuda/kernels/gpu.h"

namespace tessera::rt::cuda {

/// store(i, j, sum over t of left(i, t) * right(t, j)) for a tile of 64 x 64 of the m x n products of k terms
/// each. `leftAlong`, `rightAlong`: neighbouring threads read neighbouring terms, else neighbouring rows or
/// columns.
template <bool leftAlong, bool rightAlong, typename Left, typename Right, typename Store>
void computeTile(int64_t m, int64_t n, int64_t k, int64_t tile, Left &&leftAt, Right &&rightAt,
                 Store &&store) {
  constexpr int64_t depth = 16, side = 4;
  TSR_SHARED float left[depth][gemmTile + 4], right[depth][gemmTile + 4];
  int64_t thread = threadIndex(), row = thread / 16, column = thread % 16,
          rowTiles = (m + gemmTile - 1) / gemmTile;
  int64_t firstRow = tile % rowTiles * gemmTile, firstColumn = tile / rowTiles * gemmTile;
  float sum[side][side] = {};
  for (int64_t first = 0; first < k; first += depth) {
    for (int64_t i = thread; i < depth * gemmTile; i += gemmThreads) {
      int64_t t = leftAlong ? i % depth : i / gemmTile, at = leftAlong ? i / depth : i % gemmTile;
      left[t][at] = first + t < k && firstRow + at < m ? leftAt(firstRow + at, first + t) : 0.0f;
      t = rightAlong ? i % depth : i / gemmTile;
      at = rightAlong ? i / depth : i % gemmTile;
      right[t][at] = first + t < k && firstColumn + at < n ? rightAt(first + t, firstColumn + at) : 0.0f;
    }
    syncBlock();
    for (int64_t t = 0; t < depth; ++t)
#pragma unroll
      for (int64_t i = 0; i < side; ++i)
#pragma unroll
        for (int64_t j = 0; j < side; ++j)
          sum[i][j] = __builtin_fmaf(left[t][row * side + i], right[t][column * side + j], sum[i][j]);
    syncBlock();
  }
#pragma unroll
  for (int64_t i = 0; i < side; ++i)
#pragma unroll
    for (int64_t j = 0; j < side; ++j)
      if (firstRow + row * side + i < m && firstColumn + column * side + j < n)
        store(firstRow + row * side + i, firstColumn + column * side + j, sum[i][j]);
}

} // namespace tessera::rt::cuda
