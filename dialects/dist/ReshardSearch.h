// The shortest-path search of the reshard planner, on numbered axes. Internal to the planner.
#pragma once

#include "dialects/dist/Cost.h"
#include "dialects/dist/Dist.h"
#include <optional>
#include <string>
#include <vector>

namespace tessera::dist::detail {

/// Indices of SearchProblem::axes.
using AxisIds = llvm::SmallVector<uint8_t, 4>;

/// The part of a layout that may change: per atom the axes after the frozen ones, and the set of partial
/// axes.
struct SearchState {
  llvm::SmallVector<AxisIds, 6> atoms;
  uint32_t partial = 0;

  /// A string that is equal for equal states.
  std::string key() const;
};

struct SearchAxis {
  int64_t size;
  Link link;
  /// Only local slices may use it.
  bool local;
};

struct SearchProblem {
  /// Positions of each atom that one rank would hold if only the frozen axes split it.
  llvm::SmallVector<int64_t> extents;
  double elementBytes;
  llvm::SmallVector<SearchAxis> axes;
  SearchState source, target;

  std::string key() const;
};

struct Move {
  std::optional<CollectiveKind> kind;
  AxisIds axes;
  int64_t split = -1, concat = -1;
  SearchState after;
  Traffic cost;
};

struct SearchResult {
  std::vector<Move> moves;
  int64_t expanded = 0;
  bool found = false;
  bool exceedsMemory = false;
};

SearchResult search(const SearchProblem &problem, const CostModel &model);

} // namespace tessera::dist::detail
