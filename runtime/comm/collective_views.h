// The blocks that collectives cut arrays into, as bytes in memory.
#pragma once

#include "runtime/comm/collective_cost.h"

namespace tessera::rt {

/// Bytes in memory, `run` of them together every `stride`: one block of an array cut along a dimension.
struct View {
  char *base = nullptr;
  int64_t bytes = 0;
  int64_t run = 0, stride = 0;

  /// The part from byte `begin` on, of a view without gaps.
  char *at(int64_t begin) const { return base + begin; }
};

inline View contiguous(const void *base, int64_t bytes) {
  return {static_cast<char *>(const_cast<void *>(base)), bytes, std::max<int64_t>(bytes, 1), 0};
}

/// Block i of `in` cut along `split`, one of as many as ranks.
inline View cutBlock(const CollectiveSize &size, const void *in, int64_t i) {
  int64_t n = size.ranks, run = size.product(size.split, int64_t(size.shape.size())) / n * size.elementBytes;
  return {static_cast<char *>(const_cast<void *>(in)) + i * run, size.bytes() / n, std::max<int64_t>(run, 1),
          n * run};
}

/// Block i of `out`, joined along `concat`; every block has the extents of the source with `split` divided by
/// `parts`.
inline View joinedBlock(const CollectiveSize &size, void *out, int64_t i, int64_t parts) {
  int64_t run = size.product(size.concat, int64_t(size.shape.size())) * size.elementBytes;
  if (size.split >= size.concat)
    run /= parts;
  return {static_cast<char *>(out) + i * run, size.bytes() / parts, std::max<int64_t>(run, 1),
          size.ranks * run};
}

} // namespace tessera::rt
