// A batch cut into shards that different numbers of ranks share, and the one order in which what the shards
// give is added, whoever computes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera::rt {

/// Shard s of a batch is the work of rank s % n where n ranks share it, as their microbatch s / n. Shards are
/// added in a tree that every size has as its own: those whose numbers are equal modulo the smallest size
/// first, among these those equal modulo the next size, and so on. So a rank's shards are a subtree for every
/// size, and sums have the same bits. Sizes must divide one another and the number of shards.
struct Shards {
  /// Ascending.
  std::vector<int64_t> sizes;
  /// The one that a program is for: ranks along the axis.
  int64_t size = 1;
  int64_t count = 1;
  /// Whether a step is of only as many shards as the ranks have of the largest size, each as many on every
  /// size: the batch grows with the ranks. These are the first of the batch.
  bool scales = false;

  /// How many microbatches of the batch's a rank has.
  int64_t microbatches() const { return count / size; }
  /// How many of these a step is of: the first ones.
  int64_t turns() const { return scales ? count / sizes.back() : microbatches(); }
  /// How many times the batch is a step's.
  int64_t copies() const { return microbatches() / turns(); }
  /// What is wrong with them, or empty.
  std::string check() const;
  /// How many children the nodes of each level have, from the root: the levels that ranks add, and those that
  /// a rank adds by itself. Levels of one child are left out.
  std::vector<int64_t> rankLevels() const;
  std::vector<int64_t> microbatchLevels() const;
};

/// In the order in which a rank computes its microbatches, their numbers: subtree by subtree.
std::vector<int64_t> microbatchOrder(const std::vector<int64_t> &levels);

/// Parses `1,2,4`: ascending, each at least 1; nothing for another text.
std::optional<std::vector<int64_t>> parseSizes(const std::string &text);

} // namespace tessera::rt
