// The normal form of a strided copy.
#pragma once

#include <algorithm>
#include <stdint.h>
#include <utility>
#include <vector>

namespace tessera::rt {

/// Positions along one dimension of a copy, and how far they are apart in the source and in the target.
struct CopyDimension {
  int64_t size, source, target;
};

/// The same copy in the order of the target, without dimensions of size 1 and with those as one that run
/// through both arrays together.
inline std::vector<CopyDimension> mergeDimensions(std::vector<CopyDimension> dims) {
  std::erase_if(dims, [](const CopyDimension &d) { return d.size == 1; });
  std::sort(dims.begin(), dims.end(), [](const CopyDimension &a, const CopyDimension &b) {
    return std::pair(a.target, a.source) > std::pair(b.target, b.source);
  });
  std::vector<CopyDimension> merged;
  for (const CopyDimension &d : dims) {
    if (!merged.empty() && merged.back().source == d.size * d.source &&
        merged.back().target == d.size * d.target)
      merged.back() = {merged.back().size * d.size, d.source, d.target};
    else
      merged.push_back(d);
  }
  return merged;
}

} // namespace tessera::rt
