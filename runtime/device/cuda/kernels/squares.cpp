// The sum of the squares of many numbers. Which numbers a thread adds, and in which order sums come together,
// depends on their count alone, so every run gives the same bits.
#include "runtime/device/cuda/kernels/gpu.h"

using namespace tessera::rt::cuda;

typedef float Four __attribute__((vector_size(16)));

static double squares(Four x) {
  double sum = 0;
  for (int i = 0; i < 4; ++i)
    sum += double(x[i]) * x[i];
  return sum;
}

/// Of the values of a block's threads; on the first one.
static double blockSum(double value) {
  TSR_SHARED double sums[squaresThreads];
  int64_t thread = threadIndex();
  sums[thread] = value;
  syncBlock();
  for (int64_t half = squaresThreads / 2; half > 0; half /= 2) {
    if (thread < half)
      sums[thread] += sums[thread + half];
    syncBlock();
  }
  return sums[0];
}

TSR_KERNEL(sum_squares, SquaresArguments) {
  // Four loads of a thread are on their way at a time.
  constexpr int64_t loads = 4, step = squaresThreads * loads;
  auto *fours = reinterpret_cast<const Four *>(a.x);
  int64_t whole = uint64_t(a.x) % sizeof(Four) == 0 ? a.count / 4 : 0;
  double sum = 0;
  for (int64_t i = blockIndex() * step + threadIndex(); i < whole; i += a.blocks * step) {
    Four x[loads];
    for (int64_t k = 0; k < loads; ++k)
      x[k] = i + k * squaresThreads < whole ? fours[i + k * squaresThreads] : Four{};
    for (const Four &value : x)
      sum += squares(value);
  }
  for (int64_t i = whole * 4 + blockIndex() * squaresThreads + threadIndex(); i < a.count;
       i += a.blocks * squaresThreads)
    sum += double(a.x[i]) * a.x[i];
  sum = blockSum(sum);
  if (threadIndex() > 0)
    return;
  if (a.sums)
    a.sums[blockIndex()] = sum;
  else
    a.out[0] = float(sum);
}

TSR_KERNEL(add_sums, SumsArguments) {
  double sum = 0;
  for (int64_t i = threadIndex(); i < a.count; i += squaresThreads)
    sum += a.sums[i];
  sum = blockSum(sum);
  if (threadIndex() == 0)
    a.out[0] = float(sum);
}
