// Embedding: gather of table rows and the addition of gradients to them.
#include "runtime/device/cpu/cpu.h"
#include "runtime/device/cpu/functions.h"
#include "runtime/device/cpu/workspace.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace tessera::rt::cpu {

namespace {
/// Ids of either width.
struct Ids {
  int argument;
  bool wide;
  int64_t read(const CallContext &context, int64_t i) const {
    const void *ids = context.args[argument];
    return wide ? static_cast<const int64_t *>(ids)[i] : static_cast<const int32_t *>(ids)[i];
  }
};

/// Rows per chunk such that a chunk moves about 64 KiB.
int64_t rowGrain(int64_t rowBytes) { return std::max<int64_t>(1, 65536 / std::max<int64_t>(1, rowBytes)); }
} // namespace

LibraryCall prepareGather(CallParser &parser) {
  const int64_t rows = parser.size("rows"), width = parser.size("width"), count = parser.size("count");
  const bool wide = parser.choice("ids", {"i64", "i32"}, false) == 0;
  const int64_t bytes = parser.elementBytes();
  const int table = parser.buffer("table", checkedProduct(std::array{rows, width}), bytes);
  const Ids ids = {parser.buffer("ids", count, wide ? 8 : 4), wide};
  const int out = parser.buffer("out", checkedProduct(std::array{count, width}), bytes);
  parser.finish(0, 2);
  const int64_t rowBytes = width * bytes, scalars = parser.scalars();

  return [=](const CallContext &context) {
    const int64_t start = scalars > 0 ? context.scalars[0] : 0,
                  valid = scalars > 1 ? context.scalars[1] : count;
    const char *source = static_cast<const char *>(context.args[table]);
    char *target = static_cast<char *>(context.args[out]);
    context.pool.parallelFor(count, rowGrain(rowBytes), [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t id = i < valid ? ids.read(context, i) : start - 1;
        if (id >= start && id - start < rows)
          std::memcpy(target + i * rowBytes, source + (id - start) * rowBytes, rowBytes);
        else
          std::memset(target + i * rowBytes, 0, rowBytes);
      }
    });
  };
}

LibraryCall prepareScatterAdd(CallParser &parser) {
  const int64_t rows = parser.size("rows"), width = parser.size("width"), count = parser.size("count");
  const bool wide = parser.choice("ids", {"i64", "i32"}, false) == 0, accumulate = parser.flag("accumulate");
  const Ids ids = {parser.buffer("ids", count, wide ? 8 : 4), wide};
  const int dy = parser.buffer("dy", checkedProduct(std::array{count, width}));
  const int table = parser.buffer("table", checkedProduct(std::array{rows, width}));
  parser.finish(0, 2);
  const int64_t scalars = parser.scalars();
  const Kernels &k = kernels();

  return [=, &k](const CallContext &context) {
    const int64_t start = scalars > 0 ? context.scalars[0] : 0;
    const int64_t valid = std::min(count, scalars > 1 ? context.scalars[1] : count);
    const float *source = static_cast<const float *>(context.args[dy]);
    float *target = static_cast<float *>(context.args[table]);
    if (!accumulate)
      context.pool.parallelFor(rows, rowGrain(width * 4), [&](int64_t begin, int64_t end, int) {
        std::fill_n(target + begin * width, (end - begin) * width, -0.0f);
      });
    // Threads own columns: no two write the same element, and every element adds in the order of i.
    const int64_t threads = context.pool.threads();
    const int64_t grain = std::max<int64_t>(16, roundUp((width + threads - 1) / threads, 16));
    context.pool.parallelFor(width, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = 0; i < valid; ++i)
        if (const int64_t id = ids.read(context, i); id >= start && id - start < rows)
          k.add(target + (id - start) * width + begin, source + i * width + begin, end - begin);
    });
  };
}

} // namespace tessera::rt::cpu
