// How a rank holds a global array, and where its elements lie in the array's file: a layout becomes runs of
// bytes.
#pragma once

#include "runtime/core/mesh.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace tessera::rt {

/// One factor of a dimension: `size` positions, padded to `padded`, split over `axes` into equal blocks.
/// `order`, when not empty, cuts the padded positions into that many equal chunks, the p-th of which holds
/// logical chunk `order[p]` (zig-zag sequences).
struct Atom {
  int64_t size = 1;
  int64_t padded = 1;
  Axes axes;
  std::vector<int64_t> order;
};

/// The atoms of every dimension, major to minor. Product of the sizes: the dimension's extent.
using Layout = std::vector<std::vector<Atom>>;

/// Flat storage of a variable: the local block under its layout, flattened, padded to `padded` elements and
/// cut into equal blocks over `axes`.
struct Flat {
  int64_t padded = 0;
  Axes axes;
};

/// `count` elements that are consecutive in the file, from element `file` of the global array on, and
/// `stride` elements apart in the rank's memory, from element `memory` on.
struct Run {
  int64_t file = 0;
  int64_t memory = 0;
  int64_t count = 0;
  int64_t stride = 1;
};

/// Elements of the rank's array (padding included), or of its part of the flat storage.
int64_t localElements(const Layout &layout, const std::optional<Flat> &flat, const Mesh &mesh);

/// Calls `visit` for every run of valid elements that the rank at `coordinates` holds; padding occurs in
/// none. File offsets ascend in files of Fortran order too. Runs are as long as layout and file allow.
void forEachRun(const Layout &layout, const std::optional<Flat> &flat, const Mesh &mesh,
                const Coordinates &coordinates, bool fortran, const std::function<void(const Run &)> &visit);

} // namespace tessera::rt
