// The mesh of ranks: named axes, sub-axes, the coordinates of a rank and the groups that collectives run in.
#pragma once

#include "runtime/core/shards.h"

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::rt {

/// The pseudo axis whose coordinate counts microbatches.
constexpr std::string_view microAxisName = "micro";

/// The digit of an axis of size X that has `pre` to its left: coordinate (c / (X / (pre * size))) % size. A
/// whole axis is {name, 1, X}.
struct SubAxis {
  std::string name;
  int64_t pre = 1;
  int64_t size = 1;
  bool operator==(const SubAxis &) const = default;
};

/// Major to minor.
using Axes = std::vector<SubAxis>;

/// Where a rank stands, one number per mesh axis, and the microbatch it is at.
struct Coordinates {
  std::vector<int64_t> ofAxis;
  int64_t micro = 0;
};

/// One level of the tree in which the members of a group are added: a node adds `count` terms, one after the
/// other, whose first members are `stride` apart.
struct SumLevel {
  int64_t count = 1, stride = 1;
  bool operator==(const SumLevel &) const = default;
};

/// The ranks that differ only in the coordinates of some AXES, ordered by their index in these.
struct Group {
  std::vector<int> ranks;
  /// The place in `ranks` of the rank that asked.
  int64_t index = 0;
  int64_t size() const { return int64_t(ranks.size()); }
};

/// Named axes, slowest varying first; rank = row-major coordinates. Functions throw Error for an axis that
/// the mesh lacks or a sub-axis that does not divide it.
class Mesh {
public:
  /// One rank, no axes.
  Mesh() = default;
  /// Names and sizes. Throws Error for a size below 1 or a name that is empty, reserved or used twice.
  explicit Mesh(std::vector<std::pair<std::string, int64_t>> axes, int64_t microbatches = 1);

  const std::vector<std::pair<std::string, int64_t>> &axes() const { return names; }
  int64_t microbatches() const { return micro; }
  /// The axis whose ranks share the batch in other numbers, too, and what they add in which order. Throws
  /// Error for an axis that the mesh lacks, or shards that are not those of its size and microbatches.
  void share(const std::string &axis, const Shards &shards);
  /// Which microbatch is the one that a rank computes as its `turn`-th, from 0.
  int64_t microbatchAt(int64_t turn) const { return turns.empty() ? turn : turns[size_t(turn)]; }
  /// The order in which a group over `axes` adds: see SumLevel.
  std::vector<SumLevel> sumLevels(const Axes &axes) const;
  /// Number of ranks.
  int64_t size() const { return ranks; }

  Coordinates coordinates(int64_t rank) const;
  int64_t rank(const Coordinates &coordinates) const;

  /// Product of the sizes: the number of blocks over these axes.
  int64_t count(const Axes &axes) const;
  /// The coordinate in one sub-axis, in [0, size).
  int64_t coordinate(const SubAxis &axis, const Coordinates &at) const;
  /// The mixed-radix number of the coordinates in `axes`, the first the most significant, in [0,
  /// count(axes)).
  int64_t index(const Axes &axes, const Coordinates &at) const;
  /// The group of `axes` that `rank` is in. `axes` may not hold the microbatch counter.
  Group group(const Axes &axes, int64_t rank) const;

private:
  /// Size of the axis and its position; position -1 is the microbatch counter.
  std::pair<int64_t, int> find(const SubAxis &axis) const;

  std::vector<std::pair<std::string, int64_t>> names;
  int64_t micro = 1;
  int64_t ranks = 1;
  std::string shared;                ///< the axis of share(), empty: none
  std::vector<int64_t> sharedLevels; ///< from the root, where there is more than one
  std::vector<int64_t> turns;        ///< microbatches, where they do not come one after the other
};

/// The label under which traffic over `axes` is counted: distinct axis names in the mesh's order, such as
/// `data,tensor`.
std::string axesLabel(const Mesh &mesh, const Axes &axes);

/// `[["data", 2], ["tensor", 2]]`. Throws Error when it is something else.
Mesh parseMesh(const nlohmann::json &json, int64_t microbatches = 1);
/// `[["tensor", 1, 2], ...]`. Throws Error when it is something else or does not fit the mesh.
Axes parseAxes(const nlohmann::json &json, const Mesh &mesh);

} // namespace tessera::rt
