// Scratch memory that the functions of library.h need, as compile-time formulas without dependencies: the
// compiler reserves the workspace buffer by them and the library checks against them. All results are bytes.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tessera::rt::cpu {

/// Columns of a packed panel are rounded up to this, whatever the CPU level.
constexpr int64_t panelColumns = 32;
/// Query rows per block (a multiple of every register tile) and keys per tile of attention.
constexpr int64_t attentionRows = 72;
constexpr int64_t attentionKeys = 256;
/// The library's own product: a task computes taskRows x blockColumns of C, blockDepth of the sum at a time,
/// and packs blockRows rows of A at a time.
constexpr int64_t taskRows = 384;
constexpr int64_t blockRows = 96;
constexpr int64_t blockDepth = 256;
constexpr int64_t blockColumns = 256;
/// Distance of the rows of an unfolded image block; not a power of two, which would crowd the cache's sets.
constexpr int64_t unfoldedStride = 272;
/// A product with shared packs: a region of C is at most sharedRows x sharedColumns, a slice of the sum
/// sharedDepth.
constexpr int64_t sharedRows = 1056;
constexpr int64_t sharedColumns = 1536;
constexpr int64_t sharedDepth = 512;
/// What a one-thread matrix product of oneDNN may ask for: packed panels of both operands.
constexpr int64_t vendorProductBytes = 1024 * 1024;

constexpr int64_t roundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// One thread's area of `floats` floats, rounded so that every area stays 64-byte aligned.
constexpr int64_t areaBytes(int64_t floats) { return roundUp(floats, 64) * 4; }

/// The library's own product: one packed block of A and B and one block of C for each thread.
constexpr int64_t ownProductBytes(int64_t threads) {
  return threads * areaBytes(blockRows * blockDepth + blockDepth * blockColumns + taskRows * blockColumns);
}

/// Whether a product of these sizes is worth sharing packs: large, and not a few rows or columns only.
constexpr bool sharesPacks(int64_t m, int64_t n, int64_t k) {
  return m >= 64 && n >= 64 && k >= 16 && double(m) * double(n) * double(k) >= 8e6;
}

/// A product with shared packs, either side of C at most `side`: two halves of a slice of both operands.
constexpr int64_t sharedProductBytes(int64_t side, int64_t k) {
  return 2 * 4 * roundUp(std::min(k, sharedDepth), 16) *
         (roundUp(std::min(side, sharedRows), 96) + roundUp(std::min(side, sharedColumns), panelColumns));
}

/// `gemm` of these sizes. Batch dimensions, `items` in all, may be folded into any of them.
constexpr int64_t gemmWorkspaceBytes(int64_t m, int64_t n, int64_t k, int64_t items, int64_t threads) {
  const int64_t small = std::max(ownProductBytes(threads), threads * vendorProductBytes);
  if (!sharesPacks(m * items, n * items, k * items) ||
      double(m) * double(n) * double(k) * double(items) < 8e6)
    return small;
  return std::max(small, sharedProductBytes(std::max(m, n) * items, k * items));
}

/// `attention_forward` with t keys and head size d: packed keys and values, a tile of scores and a block of
/// queries and results for each thread.
constexpr int64_t attentionForwardWorkspaceBytes(int64_t t, int64_t d, int64_t threads) {
  const int64_t tp = roundUp(t, panelColumns), dp = roundUp(d, panelColumns);
  return threads * areaBytes(tp * d + tp * dp + attentionRows * (attentionKeys + dp + d + 4) + 256);
}

/// `attention_backward`: also K and V^T packed, the gradients of one key head, and a second tile of scores.
constexpr int64_t attentionBackwardWorkspaceBytes(int64_t t, int64_t d, int64_t threads) {
  const int64_t tp = roundUp(t, panelColumns), dp = roundUp(d, panelColumns);
  return threads *
         areaBytes(2 * tp * d + 3 * tp * dp + attentionRows * (2 * attentionKeys + 2 * d + 4 * dp + 4) + 256);
}

/// `conv_forward`, `conv_backward_data` and `conv_backward_weights`.
constexpr int64_t convWorkspaceBytes(int64_t threads) { return ownProductBytes(threads); }

} // namespace tessera::rt::cpu
