// Strided copies: copy_box and transpose. Dimensions are sorted and merged once; a copy then is either rows
// of contiguous bytes, blocks of a two-dimensional transpose, or single elements.
#include "runtime/device/copy_dimensions.h"
#include "runtime/device/cpu/cpu.h"
#include "runtime/device/cpu/functions.h"

#include <algorithm>
#include <cstring>

namespace tessera::rt::cpu {

namespace {
using Dimension = CopyDimension;

/// A copy in normal form. `outer` dimensions enclose the inner one, and the crossing one where there is one.
struct CopyPlan {
  std::vector<Dimension> outer;
  Dimension inner{1, 1, 1};
  /// The dimension along which the source is contiguous when the inner one (contiguous in the target) is not
  /// it.
  Dimension cross{1, 1, 1};
  int64_t outerCount = 1;
  bool empty = false;

  /// Offsets of outer position `index`.
  std::pair<int64_t, int64_t> offsets(int64_t index) const {
    int64_t source = 0, target = 0;
    for (size_t i = outer.size(); i-- > 0;) {
      const int64_t at = index % outer[i].size;
      index /= outer[i].size;
      source += at * outer[i].source;
      target += at * outer[i].target;
    }
    return {source, target};
  }
};

CopyPlan planCopy(std::vector<Dimension> dims) {
  CopyPlan plan;
  plan.empty = std::any_of(dims.begin(), dims.end(), [](const Dimension &d) { return d.size == 0; });
  std::vector<Dimension> merged = mergeDimensions(std::move(dims));
  if (!merged.empty()) {
    plan.inner = merged.back();
    merged.pop_back();
  }
  if (plan.inner.source != 1) {
    auto contiguous =
        std::find_if(merged.begin(), merged.end(), [](const Dimension &d) { return d.source == 1; });
    if (contiguous != merged.end()) {
      plan.cross = *contiguous;
      merged.erase(contiguous);
    }
  }
  plan.outer = std::move(merged);
  for (const Dimension &d : plan.outer)
    plan.outerCount *= d.size;
  return plan;
}

/// Positions [crossBegin, crossEnd) of `cross` at all of `inner`, in squares that the first cache holds.
template <typename T>
void crossStripe(const CopyPlan &plan, const T *source, T *target, int64_t crossBegin, int64_t crossEnd) {
  constexpr int64_t block = 64;
  const Dimension &inner = plan.inner, &cross = plan.cross;
  for (int64_t i0 = 0; i0 < inner.size; i0 += block) {
    const int64_t i1 = std::min(i0 + block, inner.size);
    if (sizeof(T) == 4 && inner.target == 1) {
      kernels().transpose(i1 - i0, crossEnd - crossBegin,
                          reinterpret_cast<const float *>(source + i0 * inner.source + crossBegin),
                          inner.source, reinterpret_cast<float *>(target + crossBegin * cross.target + i0),
                          cross.target);
      continue;
    }
    for (int64_t c = crossBegin; c < crossEnd; ++c)
      for (int64_t i = i0; i < i1; ++i)
        target[c * cross.target + i * inner.target] = source[i * inner.source + c];
  }
}

template <typename T> void runCopy(const CopyPlan &plan, Pool &pool, const T *source, T *target) {
  if (plan.empty)
    return;
  // Tasks of about 64 KiB, cut along the outer positions or, within one, along the longest remaining
  // dimension.
  constexpr int64_t taskElements = 65536 / sizeof(T);
  if (plan.cross.size > 1) {
    constexpr int64_t stripe = 64;
    const int64_t stripes = (plan.cross.size + stripe - 1) / stripe;
    const int64_t stripeElements = std::min(stripe, plan.cross.size) * plan.inner.size;
    const int64_t grain = std::max<int64_t>(1, taskElements / stripeElements);
    pool.parallelFor(plan.outerCount * stripes, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t task = begin; task < end; ++task) {
        const auto [from, to] = plan.offsets(task / stripes);
        const int64_t c0 = task % stripes * stripe;
        crossStripe(plan, source + from, target + to, c0, std::min(c0 + stripe, plan.cross.size));
      }
    });
    return;
  }
  const Dimension &inner = plan.inner;
  const int64_t pieces = (inner.size + taskElements - 1) / taskElements;
  const int64_t grain = std::max<int64_t>(1, taskElements / std::min(inner.size, taskElements));
  pool.parallelFor(plan.outerCount * pieces, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t task = begin; task < end; ++task) {
      const auto [from, to] = plan.offsets(task / pieces);
      const int64_t i0 = task % pieces * taskElements, i1 = std::min(i0 + taskElements, inner.size);
      const T *in = source + from;
      T *out = target + to;
      if (inner.source == 1 && inner.target == 1)
        std::memcpy(out + i0, in + i0, (i1 - i0) * sizeof(T));
      else
        for (int64_t i = i0; i < i1; ++i)
          out[i * inner.target] = in[i * inner.source];
    }
  });
}

void runCopy(const CopyPlan &plan, int64_t bytes, Pool &pool, const void *source, int64_t sourceOffset,
             void *target, int64_t targetOffset) {
  auto run = [&]<typename T>(T) {
    runCopy(plan, pool, static_cast<const T *>(source) + sourceOffset,
            static_cast<T *>(target) + targetOffset);
  };
  switch (bytes) {
  case 1:
    return run(uint8_t());
  case 2:
    return run(uint16_t());
  case 4:
    return run(uint32_t());
  default:
    return run(uint64_t());
  }
}
} // namespace

LibraryCall prepareCopyBox(CallParser &parser) {
  const std::vector<int64_t> shape = parser.sizes("shape");
  const int64_t rank = int64_t(shape.size());
  const std::vector<int64_t> from = parser.sizes("source_strides", rank),
                             to = parser.sizes("target_strides", rank);
  const int64_t sourceOffset = parser.size("source_offset", 0),
                targetOffset = parser.size("target_offset", 0);
  const int64_t bytes = parser.elementBytes();
  const int source = parser.box("source", shape, from, sourceOffset, bytes);
  const int target = parser.box("target", shape, to, targetOffset, bytes);
  parser.finish(0, 2);
  const int64_t scalars = parser.scalars();
  std::vector<Dimension> dims;
  for (int64_t i = 0; i < rank; ++i)
    dims.push_back({shape[i], from[i], to[i]});
  return [=, plan = planCopy(dims)](const CallContext &context) {
    runCopy(plan, bytes, context.pool, context.args[source],
            sourceOffset + (scalars > 0 ? context.scalars[0] : 0), context.args[target],
            targetOffset + (scalars > 1 ? context.scalars[1] : 0));
  };
}

LibraryCall prepareTranspose(CallParser &parser) {
  const std::vector<int64_t> shape = parser.sizes("shape");
  const int64_t rank = int64_t(shape.size());
  const std::vector<int64_t> perm = parser.sizes("perm", rank);
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  for (int64_t i = 0; i < rank; ++i)
    if (sorted[i] != i)
      parser.fail("attribute 'perm' is " + parser.attribute("perm").dump() +
                  ", expected a permutation of 0 to " + std::to_string(rank - 1));
  const int64_t bytes = parser.elementBytes();
  const auto elements = checkedProduct(shape);
  const int source = parser.buffer("source", elements, bytes),
            target = parser.buffer("target", elements, bytes);
  parser.finish();

  std::vector<Dimension> dims(rank);
  int64_t stride = 1;
  for (int64_t i = rank; i-- > 0; stride *= shape[i])
    dims[i] = {shape[i], stride, 0};
  stride = 1;
  for (int64_t j = rank; j-- > 0; stride *= shape[perm[j]])
    dims[perm[j]].target = stride;
  return [=, plan = planCopy(dims)](const CallContext &context) {
    runCopy(plan, bytes, context.pool, context.args[source], 0, context.args[target], 0);
  };
}

} // namespace tessera::rt::cpu
