// Products by any strides: a block computes a tile of 64 x 64, 16 terms at a time through shared memory, a
// thread 4 x 4 of it.
#include "runtime/device/cuda/kernels/gpu.h"
#include "runtime/device/half.h"

using namespace tessera::rt;
using namespace tessera::rt::cuda;

namespace {
constexpr int64_t depth = 16, side = 4;

float errorFunction(float x) {
  float z = x > 4 ? 4.0f : x < -4 ? -4.0f : x, s = z * z;
  const float p[] = {-2.72614225801306e-10f, 2.77068142495902e-08f,  -2.10102402082508e-06f,
                     -5.69250639462346e-05f, -7.34990630326855e-04f, -2.95459980854025e-03f,
                     -1.60960333262415e-02f};
  const float q[] = {-1.45660718464996e-05f, -2.13374055278905e-04f, -1.68282697438203e-03f,
                     -7.37332916720468e-03f, -1.42647390514189e-02f};
  float above = p[0], below = q[0];
  for (int i = 1; i < 7; ++i)
    above = __builtin_fmaf(above, s, p[i]);
  for (int i = 1; i < 5; ++i)
    below = __builtin_fmaf(below, s, q[i]);
  return z * above / below;
}

/// What GELU and SiLU multiply x by, and its derivative: a sigmoid, or the normal distribution.
struct Gate {
  float value, slope;
};
Gate gateAt(Activation activation, float x) {
  bool normal = activation == Activation::GeluErf, tanh = activation == Activation::GeluTanh;
  float u = tanh ? 1.5957691216f * (x + 0.044715f * x * x * x) : x,
        e = exponential(normal ? -0.5f * x * x : -u);
  if (normal)
    return {0.5f * (1 + errorFunction(x * 0.7071067812f)), 0.3989422804f * e};
  float s = 1 / (1 + e);
  return {s, s * (1 - s) * (tanh ? 1.5957691216f * (1 + 3 * 0.044715f * x * x) : 1.0f)};
}

/// Adds the offsets of position `index` of batch dimensions [first, last).
void addOffsets(const GemmArguments &g, int first, int last, int64_t index, int64_t (&offsets)[3]) {
  for (int i = last; i-- > first;) {
    int64_t at = index % g.sizes[i];
    index /= g.sizes[i];
    offsets[0] += at * g.aBatch[i];
    offsets[1] += at * g.bBatch[i];
    offsets[2] += at * g.cBatch[i];
  }
}

/// What becomes of a sum that stands at position `at` of C.
float finished(const GemmArguments &a, float value, int64_t at, int64_t n) {
  if (a.bias)
    value += readElement(a.resultType, a.bias, n);
  bool given = a.preActivationUse == PreActivation::Given;
  float x = given ? readElement(a.resultType, a.preActivation, at) : value;
  if (a.preActivationUse == PreActivation::Kept)
    writeElement(a.resultType, a.preActivation, at, x);
  if (a.activation == Activation::None)
    return value;
  if (a.activation == Activation::Relu)
    return (given ? x > 0 : !(x < 0)) ? value : 0.0f;
  Gate gate = gateAt(a.activation, x);
  return value * (given ? gate.value + x * gate.slope : gate.value);
}
} // namespace

/// What a product is followed by that knows no bias and no activation: a thread an element.
TSR_KERNEL(finish_product, GemmArguments) {
  int64_t i = elementIndex(), n = i % a.n, m = i / a.n % a.m, item[3] = {0, 0, 0}, items = 1;
  for (int dim = 0; dim < a.items; ++dim)
    items *= a.sizes[dim];
  if (i >= a.m * a.n * items)
    return;
  addOffsets(a, 0, a.items, i / a.n / a.m, item);
  int64_t at = item[2] + m * a.cStrides[0] + n * a.cStrides[1];
  writeElement(a.resultType, a.c, at, finished(a, readElement(a.resultType, a.c, at), at, n));
}

namespace {
/// The product of arrays of T.
template <typename T> void multiply(const GemmArguments &a) {
  TSR_SHARED float left[depth][gemmTile + 4], right[depth][gemmTile + 4];
  int64_t thread = threadIndex(), row = thread / 16, column = thread % 16;
  int64_t rowTiles = (a.m + gemmTile - 1) / gemmTile, columnTiles = (a.n + gemmTile - 1) / gemmTile,
          block = blockIndex();
  int64_t firstRow = block % rowTiles * gemmTile, firstColumn = block / rowTiles % columnTiles * gemmTile;
  int64_t item[3] = {0, 0, 0}, terms = 1;
  addOffsets(a, 0, a.items, block / rowTiles / columnTiles, item);
  for (int i = a.items; i < a.dimensions; ++i)
    terms *= a.sizes[i];
  float sum[side][side] = {};
  for (int64_t term = 0; term < terms; ++term) {
    int64_t at[3] = {item[0], item[1], 0};
    addOffsets(a, a.items, a.dimensions, term, at);
    for (int64_t first = 0; first < a.k; first += depth) {
      for (int64_t i = thread; i < depth * gemmTile; i += gemmThreads) {
        // Neighbouring threads read along the dimension that is contiguous.
        bool along = a.aStrides[1] == 1;
        int64_t k = along ? i % depth : i / gemmTile, m = along ? i / depth : i % gemmTile;
        left[k][m] = first + k < a.k && firstRow + m < a.m
                         ? widen(static_cast<const T *>(
                               a.a)[at[0] + (firstRow + m) * a.aStrides[0] + (first + k) * a.aStrides[1]])
                         : 0.0f;
        along = a.bStrides[0] == 1 && a.bStrides[1] != 1;
        k = along ? i % depth : i / gemmTile;
        int64_t n = along ? i / depth : i % gemmTile;
        right[k][n] = first + k < a.k && firstColumn + n < a.n
                          ? widen(static_cast<const T *>(
                                a.b)[at[1] + (first + k) * a.bStrides[0] + (firstColumn + n) * a.bStrides[1]])
                          : 0.0f;
      }
      syncBlock();
      for (int64_t k = 0; k < depth; ++k)
#pragma unroll
        for (int64_t i = 0; i < side; ++i)
#pragma unroll
          for (int64_t j = 0; j < side; ++j)
            sum[i][j] = __builtin_fmaf(left[k][row * side + i], right[k][column * side + j], sum[i][j]);
      syncBlock();
    }
  }
#pragma unroll
  for (int64_t i = 0; i < side; ++i)
#pragma unroll
    for (int64_t j = 0; j < side; ++j) {
      int64_t m = firstRow + row * side + i, n = firstColumn + column * side + j;
      if (m >= a.m || n >= a.n)
        continue;
      int64_t at = item[2] + m * a.cStrides[0] + n * a.cStrides[1];
      float value = sum[i][j] + (a.accumulate ? readElement(a.resultType, a.c, at) : 0.0f);
      writeElement(a.resultType, a.c, at, finished(a, value, at, n));
    }
}
} // namespace

TSR_KERNEL(gemm, GemmArguments) { multiply<float>(a); }
TSR_KERNEL(gemm_bf16, GemmArguments) { multiply<BFloat16>(a); }
TSR_KERNEL(gemm_f16, GemmArguments) { multiply<Float16>(a); }

/// The sums of A or B over k and the batch dimensions, all of which the product sums over. A block has 32 of
/// them: a lane each, whose terms the warps share, where neighbouring sums read neighbouring elements; else a
/// warp has one at a time.
TSR_KERNEL(sum_operand, GemmArguments) {
  constexpr int64_t warps = sumThreads / lanes;
  TSR_SHARED float parts[warps][sumTile];
  bool ofA = a.summed == Operand::A;
  const void *source = ofA ? a.a : a.b;
  int64_t count = ofA ? a.m : a.n, stride = ofA ? a.aStrides[0] : a.bStrides[1],
          kStride = ofA ? a.aStrides[1] : a.bStrides[0];
  int64_t lane = threadIndex() % lanes, warp = threadIndex() / lanes, begin = blockIndex() * sumTile,
          terms = 1;
  for (int i = 0; i < a.dimensions; ++i)
    terms *= a.sizes[i];
  auto sumOf = [&](int64_t i, int64_t first, int64_t step) {
    float sum = 0;
    for (int64_t term = 0; i < count && term < terms; ++term) {
      int64_t at[3] = {0, 0, 0};
      addOffsets(a, 0, a.dimensions, term, at);
      int64_t from = (ofA ? at[0] : at[1]) + i * stride;
      for (int64_t k = first; k < a.k; k += step)
        sum += readElement(a.type, source, from + k * kStride);
    }
    return sum;
  };
  if (stride != 1) {
    for (int64_t i = begin + warp; i < begin + sumTile && i < count; i += warps)
      if (float sum = warpSum(sumOf(i, lane, lanes)); lane == 0)
        writeElement(a.resultType, a.sums, i, sum);
    return;
  }
  parts[warp][lane] = sumOf(begin + lane, warp, warps);
  syncBlock();
  if (warp > 0 || begin + lane >= count)
    return;
  float sum = 0;
  for (int64_t i = 0; i < warps; ++i)
    sum += parts[i][lane];
  writeElement(a.resultType, a.sums, begin + lane, sum);
}
