// The row-wise pieces of a cross entropy whose vocabulary may be split over ranks. A warp owns a row.
#include "runtime/device/cuda/kernels/gpu.h"

using namespace tessera::rt::cuda;

static int64_t rowOfWarp() { return blockIndex() * lossWarps + threadIndex() / lanes; }

TSR_KERNEL(row_max, LossArguments) {
  int64_t row = rowOfWarp(), lane = threadIndex() % lanes;
  if (row >= a.rows)
    return;
  float highest = -infinity;
  for (int64_t j = lane; j < a.validCols; j += lanes)
    highest = larger(a.logits[row * a.cols + j], highest);
  highest = warpMax(highest);
  if (lane == 0)
    a.out[row] = highest;
}

TSR_KERNEL(softmax_sums, LossArguments) {
  int64_t row = rowOfWarp(), lane = threadIndex() % lanes;
  if (row >= a.rows)
    return;
  const float *x = a.logits + row * a.cols;
  float shift = a.shift[row], sum = 0;
  for (int64_t j = lane; j < a.validCols; j += lanes)
    sum += exponential(x[j] - shift);
  sum = warpSum(sum);
  int64_t place = a.labels[row] - a.start;
  if (lane == 0) {
    a.out[row] = sum;
    a.picked[row] = place >= 0 && place < a.validCols ? x[place] - shift : 0.0f;
  }
}

TSR_KERNEL(cross_entropy_backward, LossArguments) {
  int64_t row = rowOfWarp(), lane = threadIndex() % lanes;
  if (row >= a.rows)
    return;
  const float *x = a.logits + row * a.cols;
  float shift = a.shift[row], factor = a.scale[0];
  bool counted = row < a.validRows && a.labels[row] != a.ignored;
  int64_t written = counted ? a.validCols : 0, place = a.labels[row] - a.start;
  for (int64_t j = lane; j < a.cols; j += lanes) {
    float value = j < written ? factor * exponential(x[j] - shift) : 0.0f;
    a.out[row * a.cols + j] = j < written && j == place ? value - factor : value;
  }
}
