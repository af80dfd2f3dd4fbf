// Packings that have been made.
#ifndef TESSERA_PASSES_MEMORY_PACKINGS_H
#define TESSERA_PASSES_MEMORY_PACKINGS_H

#include "passes/Memory/Packer.h"

namespace tessera {

/// What pack() takes.
struct PackProblem {
  std::vector<PackBuffer> buffers;
  int64_t alignment = 256;
  int64_t cap = std::numeric_limits<int64_t>::max();
};

/// As pack(), with its search. Large packings are kept: a program is packed where decisions are made by its
/// peaks, and again where these become offsets. By several threads at once.
Packing packOnce(const PackProblem &problem);

} // namespace tessera
#endif
