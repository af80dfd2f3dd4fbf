// The row-wise pieces of a cross entropy whose vocabulary may be split over ranks.
#include "runtime/device/cpu/cpu.h"
#include "runtime/device/cpu/functions.h"

#include <algorithm>
#include <array>

namespace tessera::rt::cpu {

namespace {
/// Scalar `index`, or `standard` when the call has fewer.
int64_t scalarOr(const CallContext &context, int64_t scalars, int64_t index, int64_t standard) {
  return index < scalars ? context.scalars[index] : standard;
}

/// Rows per chunk, about 16 Ki elements.
int64_t rowGrain(int64_t cols) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, cols)); }
} // namespace

LibraryCall prepareRowMax(CallParser &parser) {
  const int64_t rows = parser.size("rows"), cols = parser.size("cols");
  const int logits = parser.buffer("logits", checkedProduct(std::array{rows, cols}));
  const int max = parser.buffer("max", rows);
  parser.finish(0, 1);
  const int64_t scalars = parser.scalars();
  const Kernels &k = kernels();
  return [=, &k](const CallContext &context) {
    const int64_t valid = std::clamp<int64_t>(scalarOr(context, scalars, 0, cols), 0, cols);
    const float *x = static_cast<const float *>(context.args[logits]);
    float *out = static_cast<float *>(context.args[max]);
    context.pool.parallelFor(rows, rowGrain(cols), [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        out[i] = k.rowMax(x + i * cols, valid);
    });
  };
}

LibraryCall prepareSoftmaxSums(CallParser &parser) {
  const int64_t rows = parser.size("rows"), cols = parser.size("cols");
  const int logits = parser.buffer("logits", checkedProduct(std::array{rows, cols}));
  const int labels = parser.buffer("labels", rows, 8), max = parser.buffer("max", rows);
  const int sum = parser.buffer("sum", rows), picked = parser.buffer("picked", rows);
  parser.finish(0, 2);
  const int64_t scalars = parser.scalars();
  const Kernels &k = kernels();
  return [=, &k](const CallContext &context) {
    const int64_t start = scalarOr(context, scalars, 0, 0);
    const int64_t valid = std::clamp<int64_t>(scalarOr(context, scalars, 1, cols), 0, cols);
    const float *x = static_cast<const float *>(context.args[logits]);
    const float *shift = static_cast<const float *>(context.args[max]);
    const int64_t *label = static_cast<const int64_t *>(context.args[labels]);
    float *sums = static_cast<float *>(context.args[sum]),
          *picks = static_cast<float *>(context.args[picked]);
    context.pool.parallelFor(rows, rowGrain(cols), [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const float *row = x + i * cols;
        sums[i] = k.expSum(row, valid, shift[i]);
        const bool here = label[i] >= start && label[i] - start < valid;
        picks[i] = here ? row[label[i] - start] - shift[i] : 0;
      }
    });
  };
}

LibraryCall prepareCrossEntropyBackward(CallParser &parser) {
  const int64_t rows = parser.size("rows"), cols = parser.size("cols");
  const int64_t ignored = parser.integer("ignore_index", -100);
  const auto elements = checkedProduct(std::array{rows, cols});
  const int logits = parser.buffer("logits", elements), labels = parser.buffer("labels", rows, 8);
  const int lse = parser.buffer("lse", rows), scale = parser.buffer("scale", 1);
  const int dlogits = parser.buffer("dlogits", elements);
  parser.finish(0, 3);
  const int64_t scalars = parser.scalars();
  const Kernels &k = kernels();
  return [=, &k](const CallContext &context) {
    const int64_t start = scalarOr(context, scalars, 0, 0);
    const int64_t valid = std::clamp<int64_t>(scalarOr(context, scalars, 1, cols), 0, cols);
    const int64_t validRows = scalarOr(context, scalars, 2, rows);
    const float *x = static_cast<const float *>(context.args[logits]);
    const float *shift = static_cast<const float *>(context.args[lse]);
    const int64_t *label = static_cast<const int64_t *>(context.args[labels]);
    const float factor = *static_cast<const float *>(context.args[scale]);
    float *dx = static_cast<float *>(context.args[dlogits]);
    context.pool.parallelFor(rows, rowGrain(cols), [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        float *row = dx + i * cols;
        const bool counted = i < validRows && label[i] != ignored;
        const int64_t written = counted ? valid : 0;
        k.expScaled(x + i * cols, row, written, shift[i], factor);
        std::fill(row + written, row + cols, 0.0f);
        if (counted && label[i] >= start && label[i] - start < valid)
          row[label[i] - start] -= factor;
      }
    });
  };
}

} // namespace tessera::rt::cpu
