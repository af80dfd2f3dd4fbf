// Blocks of arrays, however they were cut, and what two of them have in common.
#pragma once

#include "runtime/storage/layout.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace tessera::rt {

/// Positions [begin, end).
struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Range &) const = default;
  auto operator<=>(const Range &) const = default;
};

/// A part of an array. `view` has for every dimension the sizes of the atoms that it is cut into, major to
/// minor; `ranges` has the positions of each atom.
struct Box {
  std::vector<std::vector<int64_t>> view;
  std::vector<std::vector<Range>> ranges;

  /// The whole array, uncut.
  static Box whole(const std::vector<int64_t> &shape);
  int64_t elements() const;
  /// The extents of the atoms' ranges, in one list.
  std::vector<int64_t> shape() const;
  bool isWhole() const;
  auto operator<=>(const Box &) const = default;
};

/// A box, or of its elements in C order some.
struct Piece {
  Box box;
  std::optional<Range> range;

  int64_t elements() const { return range ? range->size() : box.elements(); }
  bool operator==(const Piece &) const = default;
};

/// `count` positions of a dimension from `logical` on, which a block has at `local` and after.
struct Stretch {
  int64_t logical = 0, local = 0, count = 0;
};

/// A block of an array as it lies in memory or in a file: for each dimension what it has, ascending, and its
/// extent there. Where extents are larger than what is there (padding), the rest is nobody's.
struct Block {
  struct Dimension {
    std::vector<Stretch> stretches;
    int64_t extent = 1;
  };
  std::vector<Dimension> dimensions;
  /// Of the elements in C order, padding included, those that are there, the first of them at 0; none: all.
  std::optional<Range> range;

  explicit Block(const Piece &piece);
  /// What the rank at `coordinates` holds.
  Block(const Layout &layout, const std::optional<Flat> &flat, const Mesh &mesh,
        const Coordinates &coordinates);
};

/// The pieces that make up what the rank at `coordinates` holds, without padding. Several only where an atom
/// has an order of its own.
std::vector<Piece> piecesOf(const Layout &layout, const std::optional<Flat> &flat, const Mesh &mesh,
                            const Coordinates &coordinates);

/// Calls `visit(a, b, count)` for all runs of elements that two blocks of one array have in common: `count`
/// consecutive ones from element `a` of the one and `b` of the other on. Both ascend by the order of the
/// array.
void forEachCommonRun(const Block &one, const Block &other,
                      const std::function<void(int64_t, int64_t, int64_t)> &visit);

/// Whether two boxes of one array have an element in common.
bool intersect(const Box &one, const Box &other);

} // namespace tessera::rt
