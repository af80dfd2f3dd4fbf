// Static offsets for buffers whose lifetimes are known: dynamic storage allocation by first fit in several
// orders.
#ifndef TESSERA_PASSES_MEMORY_PACKER_H
#define TESSERA_PASSES_MEMORY_PACKER_H

#include <cstdint>
#include <vector>

namespace tessera {

/// A buffer that is live at positions [start, end).
struct PackBuffer {
  int64_t start = 0, end = 0, bytes = 0;
};

struct Packing {
  std::vector<int64_t> offsets; // parallel to the buffers
  int64_t peak = 0;             // highest end of a buffer
  int64_t bound = 0;            // largest sum of bytes live at one position: no packing is below it
};

/// Offsets that are multiples of `alignment` such that buffers live together do not overlap. Tries the orders
/// by size, by contention (the largest live sum in a buffer's life), by bytes times life and by life, keeps
/// the best and, where it misses the bound, improves it by moving buffers of the chain that supports the peak
/// earlier, a number of times that the number of buffers decides. The same input gives the same packing. A
/// buffer that is never live takes nothing.
Packing pack(const std::vector<PackBuffer> &buffers, int64_t alignment = 256);

} // namespace tessera
#endif
