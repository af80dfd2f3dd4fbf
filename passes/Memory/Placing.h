// Two ways to place rectangles, each with a fixed range of columns, on one another: what the packer tries.
#ifndef TESSERA_PASSES_MEMORY_PLACING_H
#define TESSERA_PASSES_MEMORY_PLACING_H

#include <cstdint>
#include <vector>

namespace tessera {

/// A buffer that is live in the columns [first, last).
struct Rectangle {
  int first, last;
  int64_t bytes;
};

/// Where each rectangle begins, and the highest end of one.
struct Placing {
  std::vector<int64_t> offsets;
  int64_t peak = 0;
};

/// How often a node of a tree or a range of bytes was looked at: what a packer's time is counted in.
using WorkCount = int64_t;

/// Places the rectangles in this order, each as low as it can be among those before it, in a gap too.
Placing firstFit(const std::vector<Rectangle> &rectangles, int columns, const std::vector<int> &order,
                 WorkCount &work);

/// Fills the lowest part of the skyline: of the rectangles that fit between its walls the first in `order` is
/// put there; where none fits, none ever will, and the part is raised to its lower wall. This is the best fit
/// of Burke, Kendall and Whitwell, A New Placement Heuristic for the Orthogonal Stock-Cutting Problem (2004),
/// for rectangles that cannot move sideways, as Sekiyama, Imai, Negishi and Kawachiya used it for the buffers
/// of networks, Profile-guided Memory Optimization for Deep Neural Networks (2018), the longest life first.
Placing fillLowest(const std::vector<Rectangle> &rectangles, int columns, const std::vector<int> &order,
                   WorkCount &work);

} // namespace tessera
#endif
