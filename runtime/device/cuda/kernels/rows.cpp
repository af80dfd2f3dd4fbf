// Embedding, constants and the optimizers' updates: a thread an element.
#include "runtime/device/cuda/kernels/gpu.h"
#include "runtime/device/update_step.h"

using namespace tessera::rt;
using namespace tessera::rt::cuda;

static int64_t idAt(const RowsArguments &a, int64_t i) {
  return a.wideIds ? static_cast<const int64_t *>(a.ids)[i] : static_cast<const int32_t *>(a.ids)[i];
}

TSR_KERNEL(gather, RowsArguments) {
  int64_t i = elementIndex(), row = i / a.width;
  if (row >= a.count)
    return;
  int64_t id = row < a.valid ? idAt(a, row) - a.start : -1;
  static const uint64_t zero = 0;
  if (id >= 0 && id < a.rows)
    copyElement(a.target, i, a.source, id * a.width + i % a.width, a.bytes);
  else
    copyElement(a.target, i, &zero, 0, a.bytes);
}

/// A thread owns a column, so that every element adds in the order of the rows.
/// A thread looks at every id and adds to its own rows alone: each sum is in the order of the ids.
TSR_KERNEL(scatter_add, RowsArguments) {
  int64_t index = elementIndex(), column = index % a.width, part = index / a.width;
  if (part >= a.parts)
    return;
  for (int64_t i = 0; i < a.valid; ++i)
    if (int64_t id = idAt(a, i) - a.start; id >= 0 && id < a.rows && (id & (a.parts - 1)) == part)
      static_cast<float *>(a.target)[id * a.width + column] +=
          static_cast<const float *>(a.source)[i * a.width + column];
}

TSR_KERNEL(mask_padding, MaskArguments) {
  int64_t i = elementIndex();
  if (a.lanes) {
    int64_t block = a.n * a.inner, first = i / a.lanes * block;
    for (int64_t j = a.valid * a.inner + i % a.lanes; j < block && first < a.count; j += a.lanes)
      copyElement(a.out, first + j, &a.pattern, 0, a.bytes);
    return;
  }
  if (i >= a.count)
    return;
  if (a.start + i < a.end && (a.start + i) / a.inner % a.n >= a.valid)
    copyElement(a.out, i, &a.pattern, 0, a.bytes);
  else if (a.x != a.out)
    copyElement(a.out, i, a.x, i, a.bytes);
}

TSR_KERNEL(logical_index, IndexArguments) {
  if (int64_t i = elementIndex(); i < a.count)
    a.out[i] = a.start + i;
}

TSR_KERNEL(square_root, RootArguments) {
  if (int64_t i = elementIndex(); i < a.count)
    a.out[i] = __builtin_sqrtf(a.in[i]);
}

TSR_KERNEL(update, UpdateArguments) {
  int64_t i = elementIndex();
  if (i >= a.count)
    return;
  if (a.lossScale && gradientOverflowed(a.gradNorm[0]))
    return;
  const UpdateStep step =
      updateStep(a.scalars, a.decay[0], a.gradNorm, a.lossScale ? a.scalars + updateScalars : nullptr);
  switch (a.update) {
  case Update::AdamW:
    return updateAdamW(step, a.p[i], a.g[i], a.m[i], a.v[i]);
  case Update::Adam:
    return updateAdam(step, a.p[i], a.g[i], a.m[i], a.v[i]);
  case Update::Sgd:
    return updateSgd(step, a.p[i], a.g[i]);
  case Update::SgdMomentum:
    return updateSgdMomentum(step, a.p[i], a.g[i], a.m[i]);
  }
}
