// Which ranks do the same at the same time, so that one of them is enough to simulate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::rt {

/// All ranks in groups, each rank in one: those of a collective, or the ranks of a node, which share links.
struct Grouping {
  /// By rank: the first of its group.
  std::vector<int> first;
  /// By rank, the same in a group: what else tells groups apart, such as the level of the links that it uses.
  std::vector<int64_t> mark;
};

/// Ranks in classes. All of a class do the same operations, and every grouping puts them together with
/// equally many of each class: so each of them has the others' times.
struct Folding {
  std::vector<int> classOf;    ///< by rank
  std::vector<int64_t> first;  ///< by class: its first rank
  std::vector<int64_t> counts; ///< by class: its ranks

  size_t size() const { return first.size(); }
};

/// The coarsest classes: at first ranks with equal numbers are together, then those are parted whose groups
/// look different (colour refinement, as of graphs: Weisfeiler and Leman, 1968).
Folding foldRanks(const std::vector<int64_t> &numbers, const std::vector<Grouping> &groupings);

/// The groups of a grouping in terms of classes.
class FoldedGroups {
public:
  FoldedGroups(const Grouping &grouping, const Folding &folding);

  /// The group that the ranks of a class are in: groups of the same classes are one.
  size_t groupOf(size_t cls) const { return ofClass[cls]; }
  /// Its classes, ascending.
  const std::vector<size_t> &classes(size_t group) const { return members[group]; }
  /// How many ranks of the class are in one such group.
  int64_t countOf(size_t cls) const { return counts[cls]; }
  size_t size() const { return members.size(); }

private:
  std::vector<size_t> ofClass;
  std::vector<int64_t> counts;
  std::vector<std::vector<size_t>> members;
};

} // namespace tessera::rt
