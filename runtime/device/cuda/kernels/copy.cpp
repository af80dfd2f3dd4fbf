// Strided copies in units of up to 16 bytes. A thread reads all of its units before it writes one, so that
// several are on their way at a time.
#include "runtime/device/cuda/kernels/gpu.h"

using namespace tessera::rt::cuda;

typedef uint32_t Sixteen __attribute__((vector_size(16)));

/// The first unit of this thread.
static int64_t firstUnit() { return blockIndex() * (elementThreads * copyEach) + threadIndex(); }

/// `left`: units from this thread's first on, none if negative.
template <typename Unit>
static void copyUnits(const void *source, void *target, const int64_t *from, const int64_t *to,
                      int64_t left) {
  Unit values[copyEach];
  for (int64_t k = 0; k < copyEach; ++k)
    if (k * elementThreads < left)
      values[k] = static_cast<const Unit *>(source)[from[k]];
  for (int64_t k = 0; k < copyEach; ++k)
    if (k * elementThreads < left)
      static_cast<Unit *>(target)[to[k]] = values[k];
}

template <typename Arguments>
static void copyUnits(const Arguments &a, const int64_t *from, const int64_t *to) {
  int64_t left = int64_t(a.count) - firstUnit();
  if (a.width == 16)
    copyUnits<Sixteen>(a.source, a.target, from, to, left);
  else if (a.width == 8)
    copyUnits<uint64_t>(a.source, a.target, from, to, left);
  else if (a.width == 4)
    copyUnits<uint32_t>(a.source, a.target, from, to, left);
  else if (a.width == 2)
    copyUnits<uint16_t>(a.source, a.target, from, to, left);
  else
    copyUnits<uint8_t>(a.source, a.target, from, to, left);
}

static uint32_t divide(uint32_t n, Divisor by) {
  return (uint32_t(uint64_t(n) * by.factor >> 32) + n) >> by.shift;
}

TSR_KERNEL(copy_box, CopyArguments) {
  uint32_t rest[copyEach];
  int64_t from[copyEach] = {}, to[copyEach] = {};
  for (int64_t k = 0; k < copyEach; ++k)
    rest[k] = uint32_t(firstUnit() + k * elementThreads);
  for (int dim = a.rank - 1; dim > 0; --dim)
    for (int64_t k = 0; k < copyEach; ++k) {
      uint32_t outer = divide(rest[k], a.sizes[dim]), at = rest[k] - outer * a.sizes[dim].value;
      from[k] += at * a.sourceStrides[dim];
      to[k] += at * a.targetStrides[dim];
      rest[k] = outer;
    }
  for (int64_t k = 0; k < copyEach; ++k) {
    from[k] += rest[k] * a.sourceStrides[0];
    to[k] += rest[k] * a.targetStrides[0];
  }
  copyUnits(a, from, to);
}

template <typename Index> static void copyRuns(const RunsArguments &a) {
  int64_t from[copyEach], to[copyEach];
  auto sourceRun = Index(a.sourceRun), targetRun = Index(a.targetRun);
  for (int64_t k = 0; k < copyEach; ++k) {
    int64_t i = firstUnit() + k * elementThreads;
    auto source = Index(a.sourceFirst + i), target = Index(a.targetFirst + i);
    from[k] = source / sourceRun * a.sourceStride + source % sourceRun;
    to[k] = target / targetRun * a.targetStride + target % targetRun;
  }
  copyUnits(a, from, to);
}

TSR_KERNEL(copy_runs, RunsArguments) {
  if (a.narrow)
    copyRuns<uint32_t>(a);
  else
    copyRuns<uint64_t>(a);
}
