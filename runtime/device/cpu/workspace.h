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

/// `gemm` of any shape.
constexpr int64_t gemmWorkspaceBytes(int64_t threads) {
  return std::max(ownProductBytes(threads), threads * vendorProductBytes);
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
