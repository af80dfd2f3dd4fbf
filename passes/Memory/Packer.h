// Static offsets for buffers whose lifetimes are known: dynamic storage allocation.
#ifndef TESSERA_PASSES_MEMORY_PACKER_H
#define TESSERA_PASSES_MEMORY_PACKER_H

#include <cstdint>
#include <limits>
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
  int64_t work = 0;             // how often a node of a tree or a range of bytes was looked at
};

/// Offsets that are multiples of `alignment` such that buffers live together do not overlap. The same input
/// gives the same packing on any machine: what is tried ends at the bound, or when a number of steps has been
/// done that the number of buffers decides. A buffer that is never live takes nothing. Lives lie within a
/// step: none goes around its end.
///
/// The skyline is filled from below (`fillLowest` of Placing.h, with its sources) by orders of bytes, life,
/// both, and contention (the largest live sum in a buffer's life). If none meets the bound, first fit is
/// tried in the same orders, and every result justified: all buffers up under the peak as far as they go,
/// then down again, as Valls, Ballestin and Quintanilla do with schedules, Justification and RCPSP (2005).
/// What remains goes into steps, each of which moves one buffer of a chain that holds up the excess.
///
/// With a `cap`, of 2000 buffers and more, within 2 % of the bound is near enough once the peak is no higher
/// than the cap, or if no packing is. Without `searches` only the first orders are tried, which is quick and
/// often some percent above.
Packing pack(const std::vector<PackBuffer> &buffers, int64_t alignment = 256,
             int64_t cap = std::numeric_limits<int64_t>::max(), bool searches = true);

} // namespace tessera
#endif
