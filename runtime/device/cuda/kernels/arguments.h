// What the host hands to the library's GPU kernels: one struct a kernel, by value. Pointers are the device's;
// contracts are those of runtime/device/cpu/library.h.
#pragma once

#include "runtime/device/element.h"

#include <stdint.h>

namespace tessera::rt::cuda {

constexpr int maxDimensions = 8;
/// Threads of a block of a kernel with one thread for each element, or for a few.
constexpr int64_t elementThreads = 256;

/// By the order of the attributes' names.
enum class Activation : int32_t { None, GeluTanh, GeluErf, Relu, Silu };
enum class PreActivation : int32_t { None, Kept, Given };
enum class Operand : int32_t { None, A, B };

/// x = A[m,k] B[k,n] + (accumulate ? C : 0) + bias[n] and C[m,n] = activation(x), or x
/// activation'(preActivation) where that is given, for each position of the first `items` batch dimensions,
/// summed over the others. One block for each 64 x 64 tile of each item. The sums of an operand over k and
/// the batch dimensions are another kernel's.
struct GemmArguments {
  const void *a, *b, *bias;
  void *c, *preActivation, *sums;
  Element type, resultType; ///< of A and B; of all others
  Activation activation;
  PreActivation preActivationUse;
  Operand summed;
  int64_t m, n, k, aStrides[2], bStrides[2], cStrides[2];
  int32_t items, dimensions, accumulate;
  int64_t sizes[maxDimensions], aBatch[maxDimensions], bBatch[maxDimensions], cBatch[maxDimensions];
};
constexpr int64_t gemmTile = 64, gemmThreads = 256;
/// Of the sums of an operand a block has as many as a warp has lanes.
constexpr int64_t sumTile = 32, sumThreads = 512;

/// A convolution of images [batch, groups, cig, h, w], and its gradients. One block for each 64 x 64 tile of
/// `out`, of an item of it.
struct ConvArguments {
  const float *input, *weights, *bias, *dy;
  float *out;
  int64_t batch, groups, cig, cog, h, w, oh, ow, kh, kw, strideH, strideW, padH, padW, dilationH, dilationW;
};

/// One warp for each row of q (forward, the gradient of q), or of k (the gradients of k and v).
struct AttentionArguments {
  const void *q, *k, *v, *bias, *o, *dO;
  float *lse;
  void *out, *dq, *dk, *dv;
  Element type, biasType; ///< of q, k, v, o and their gradients; of the bias
  int64_t batch, s, t, kvHeads, group, d;
  float scale;
  int32_t causal;
  int64_t qStrides[4], kStrides[3], vStrides[3], oStrides[4], biasStrides[5], dOStrides[4], dqStrides[4],
      dkStrides[3], dvStrides[3];
  int64_t validS, validT, startS, startT, zigzag;
  const uint64_t *key; ///< of a dropout of the weights; null: none are dropped
  const int64_t *rows; ///< the number of each row's first weight, as lse
  uint64_t id;
  float keptScale;
  uint32_t dropBelow;
};
constexpr int64_t attentionWarps = 4, attentionHead = 256,
                  attentionAgainRows = 32; ///< a warp looks through so many rows for those to do again

/// Rows of a table by ids. One thread for each element of `out`; of scatter_add one for each column.
struct RowsArguments {
  const void *ids, *source;
  void *target;
  int64_t rows, width, count, start, valid;
  int32_t wideIds, bytes;
  int64_t parts; ///< of scatter_add, a power of two: threads share the rows of a column by remainders
};

/// The pieces of a cross entropy. One warp for each row.
struct LossArguments {
  const float *logits, *shift, *scale;
  const int64_t *labels;
  float *out, *picked;
  int64_t rows, cols, start, validCols, validRows, ignored;
};
constexpr int64_t lossWarps = 4;

enum class Update : int32_t { AdamW, Adam, Sgd, SgdMomentum };
struct UpdateArguments {
  const float *scalars, *decay, *gradNorm, *g;
  float *p, *m, *v;
  int64_t count;
  Update update;
  int32_t
      lossScale; // the ninth scalar divides the gradient, and a norm that is not finite leaves the step out
};

/// sums[block] = the sum of the squares of a block's part of x, in f64; without sums there is one block,
/// whose sum is out[0].
struct SquaresArguments {
  const float *x;
  double *sums;
  float *out;
  int64_t count, blocks;
};
/// out[0] = the sum of sums, in an order that depends on their count alone. One block.
struct SumsArguments {
  const double *sums;
  float *out;
  int64_t count;
};
constexpr int64_t squaresThreads = 256;
/// Blocks for the squares of so many elements: four loads of 16 bytes a thread, or more where that would be
/// more blocks than a GPU runs at a time.
constexpr int64_t squaresBlocks(int64_t count) {
  constexpr int64_t each = squaresThreads * 16, most = 1024;
  int64_t blocks = count <= each ? 1 : (count - 1) / each + 1;
  return blocks < most ? blocks : most;
}

/// A number to divide those below 2^31 by: n / value = (the high half of n * factor + n) >> shift.
struct Divisor {
  uint32_t value, factor, shift;
};
constexpr Divisor divisorOf(uint32_t value) {
  uint32_t shift = 0;
  while ((uint64_t(1) << shift) < value)
    ++shift;
  return {value, uint32_t((((uint64_t(1) << shift) - value) << 32) / value + 1), shift};
}

/// target[position by target strides] = source[position by source strides]; `count` units of `width` bytes,
/// fewer than 2^31, in at least one dimension.
struct CopyArguments {
  const void *source;
  void *target;
  int64_t sourceStrides[maxDimensions], targetStrides[maxDimensions];
  Divisor sizes[maxDimensions];
  uint32_t count;
  int32_t rank, width;
};

/// `count` units of `width` bytes, of an array that has `run` of them together every `stride` to another such
/// array, each from its own first on. Narrow: first and count together, and runs, are below 2^31.
struct RunsArguments {
  const void *source;
  void *target;
  int64_t count, sourceFirst, sourceRun, sourceStride, targetFirst, targetRun, targetStride;
  int32_t width, narrow;
};
/// Units of a thread, as far apart as a block has threads.
constexpr int64_t copyEach = 4;

/// x as [outer, n, inner], the elements [start, start + count) of it: positions >= valid of the middle
/// dimension become `pattern`, the others x, and so do those from `end` on. fill is n = inner = 1, valid = 0.
struct MaskArguments {
  const void *x;
  void *out;
  int64_t count, start, end, n, inner, valid;
  int64_t lanes; ///< threads of a block of n * inner that share what is masked of it; 0: a thread an element
  uint64_t pattern;
  int32_t bytes;
};

struct IndexArguments {
  int64_t *out;
  int64_t count, start;
};

struct RootArguments {
  const float *in;
  float *out;
  int64_t count;
};

} // namespace tessera::rt::cuda
