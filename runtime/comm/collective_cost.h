// What a collective costs, as formulas without dependencies: the bytes its ranks send and the scratch memory
// it needs. The compiler promises by them, the runtime's transport counts by itself and its collectives use
// no more scratch.
#pragma once

#include "runtime/comm/collective_kinds.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tessera::rt {

/// The measures of one collective over a group of `ranks` ranks. `shape` is the local source array by atoms.
struct CollectiveSize {
  CollectiveKind kind = CollectiveKind::AllReduce;
  int64_t ranks = 1;
  int64_t elementBytes = 4;
  std::vector<int64_t> shape;
  /// Positions in `shape` that the source is cut along and blocks are joined along, if the kind does so.
  int64_t split = 0, concat = 0;
  /// Of permute: how many ranks receive their block from another one (see permuteSources).
  int64_t moved = 0;

  int64_t elements() const { return product(0, int64_t(shape.size())); }
  int64_t bytes() const { return elements() * elementBytes; }
  /// Product of the dimensions in [begin, end).
  int64_t product(int64_t begin, int64_t end) const {
    int64_t result = 1;
    for (int64_t i = begin; i < end; ++i)
      result *= shape[i];
    return result;
  }
};

/// Bytes of the result.
inline int64_t collectiveResultBytes(const CollectiveSize &size) {
  const CollectiveTraits &traits = collectiveTraits(size.kind);
  return size.bytes() / (traits.splits ? size.ranks : 1) * (traits.joins ? size.ranks : 1);
}

/// Payload bytes sent, summed over the ranks of the group; the mean rank sends this over `ranks`. Exact,
/// whatever the counts: all_reduce of B bytes is a reduce-scatter and an all-gather of n chunks, 2(n-1)B in
/// all.
inline int64_t collectiveSentBytes(const CollectiveSize &size) {
  const CollectiveTraits &traits = collectiveTraits(size.kind);
  int64_t others = size.ranks - 1, bytes = size.bytes();
  switch (traits.route) {
  case CollectiveRoute::Permutation:
    return size.ranks == 1 ? 0 : size.moved * bytes;
  case CollectiveRoute::FromRoot:
  case CollectiveRoute::ToRoot:
    return others * (traits.sendsBlocks() ? bytes / size.ranks : bytes);
  case CollectiveRoute::AllToAll:
    break;
  }
  return traits.phases() * others * (traits.sendsBlocks() ? bytes : size.ranks * bytes);
}

/// What the mean of `ranks` ranks sends, in multiples of its source; of a permute the most that it may be.
inline double collectiveSentShare(CollectiveKind kind, double ranks) {
  const CollectiveTraits &traits = collectiveTraits(kind);
  if (traits.permutes())
    return 1;
  if (traits.isRooted())
    return (ranks - 1) / ranks / (traits.sendsBlocks() ? ranks : 1);
  return double(traits.phases()) * (traits.sendsBlocks() ? (ranks - 1) / ranks : ranks - 1);
}

/// How a broadcast travels. Direct: the root sends to everyone at once. Tree: whoever has the value sends it
/// on, in rounds that double their number. Chain: from rank to rank in segments, so that all links work at
/// the same time.
enum class BroadcastAlgorithm { Direct, Tree, Chain };

inline const char *broadcastName(BroadcastAlgorithm algorithm) {
  return algorithm == BroadcastAlgorithm::Direct ? "direct"
         : algorithm == BroadcastAlgorithm::Tree ? "tree"
                                                 : "chain";
}

/// Rounds in which a tree, or a halving, reaches n ranks.
inline int64_t collectiveRounds(int64_t ranks) {
  int64_t rounds = 0;
  for (int64_t reached = 1; reached < ranks; reached *= 2)
    ++rounds;
  return rounds;
}

/// Messages that pass through scratch memory are cut so that those of all peers together have about this many
/// bytes.
constexpr int64_t collectiveStageBytes = int64_t(1) << 20;
/// ... but not below this, since a message costs as much as some thousand bytes.
constexpr int64_t collectiveMinSegmentBytes = int64_t(1) << 14;

/// What takes the time of a collective: messages that wait for each other, and bytes that the busiest rank
/// sends or receives one after the other. On links of alpha seconds a message and beta seconds a byte it
/// takes alpha times the one and beta times the other.
struct CollectiveLoad {
  double rounds = 0, bytes = 0;

  double seconds(double alpha, double beta) const { return alpha * rounds + beta * bytes; }
};

/// Until the last of `ranks` ranks has `bytes` bytes.
inline CollectiveLoad broadcastLoad(BroadcastAlgorithm algorithm, int64_t ranks, double bytes) {
  if (ranks < 2)
    return {};
  switch (algorithm) {
  case BroadcastAlgorithm::Direct:
    return {1, double(ranks - 1) * bytes};
  case BroadcastAlgorithm::Tree: {
    double rounds = double(collectiveRounds(ranks));
    return {rounds, rounds * bytes};
  }
  case BroadcastAlgorithm::Chain:
    break;
  }
  double segment = std::min(bytes, double(collectiveStageBytes));
  double segments = (bytes > segment ? bytes / segment : 1) + double(ranks - 2);
  return {segments, segments * segment};
}

/// Of a collective over `ranks` ranks whose source has `bytes` bytes; `algorithm` is a broadcast's.
inline CollectiveLoad collectiveLoad(CollectiveKind kind, int64_t ranks, double bytes,
                                     BroadcastAlgorithm algorithm) {
  const CollectiveTraits &traits = collectiveTraits(kind);
  if (ranks < 2)
    return {};
  switch (traits.route) {
  case CollectiveRoute::Permutation:
    return {1, bytes}; // to one rank, however many ranks take part; some may keep their block
  case CollectiveRoute::FromRoot:
    return broadcastLoad(algorithm, ranks, bytes);
  case CollectiveRoute::ToRoot:
    return {1, double(ranks - 1) * bytes}; // one rank receives from all others
  case CollectiveRoute::AllToAll:
    break;
  }
  return {double(traits.phases() * collectiveRounds(ranks)),
          collectiveSentShare(kind, double(ranks)) * bytes};
}

/// The places, counted from the root's, that a place sends a broadcast to, in order.
inline std::vector<int64_t> broadcastReceivers(BroadcastAlgorithm algorithm, int64_t ranks, int64_t place) {
  std::vector<int64_t> receivers;
  switch (algorithm) {
  case BroadcastAlgorithm::Direct:
    for (int64_t other = 1; place == 0 && other < ranks; ++other)
      receivers.push_back(other);
    break;
  case BroadcastAlgorithm::Tree:
    // Round r takes the value from the first 2^r places to the next 2^r; who got it in an earlier round sends
    // first.
    for (int64_t reached = 1; reached < ranks; reached *= 2)
      if (place < reached && place + reached < ranks)
        receivers.push_back(place + reached);
    break;
  case BroadcastAlgorithm::Chain:
    if (place + 1 < ranks)
      receivers.push_back(place + 1);
    break;
  }
  return receivers;
}

/// The place from which a place other than the root's gets a broadcast.
inline int64_t broadcastSender(BroadcastAlgorithm algorithm, int64_t place) {
  if (algorithm == BroadcastAlgorithm::Direct)
    return 0;
  if (algorithm == BroadcastAlgorithm::Chain)
    return place - 1;
  int64_t reached = 1;
  while (reached * 2 <= place)
    reached *= 2;
  return place - reached;
}

/// The fastest one; of equals the first.
inline BroadcastAlgorithm broadcastAlgorithm(int64_t ranks, double bytes, double alpha, double beta) {
  BroadcastAlgorithm best = BroadcastAlgorithm::Direct;
  for (BroadcastAlgorithm other : {BroadcastAlgorithm::Tree, BroadcastAlgorithm::Chain})
    if (broadcastLoad(other, ranks, bytes).seconds(alpha, beta) <
        broadcastLoad(best, ranks, bytes).seconds(alpha, beta))
      best = other;
  return best;
}

/// Elements per message to each of `peers` ranks when `block` elements for each go through scratch memory.
inline int64_t collectiveSegment(int64_t block, int64_t peers, int64_t elementBytes) {
  int64_t bytes = std::max(collectiveStageBytes / std::max<int64_t>(peers, 1), collectiveMinSegmentBytes);
  return std::max<int64_t>(1, std::min(block, bytes / elementBytes));
}

/// How blocks travel: elements of the largest block, elements per message, and which ends pass through
/// scratch memory.
struct CollectiveStaging {
  int64_t block = 0, segment = 0;
  bool send = false, receive = false;
};

inline CollectiveStaging collectiveStaging(const CollectiveSize &size) {
  const CollectiveTraits &traits = collectiveTraits(size.kind);
  int64_t n = size.ranks, elements = size.elements(), rank = int64_t(size.shape.size());
  CollectiveStaging staging;
  staging.block = traits.sendsBlocks() ? (elements + n - 1) / n : elements;
  // A block is contiguous when nothing is to the left of the dimension that is cut or joined. What is to the
  // left may have been cut itself.
  staging.send = traits.splits && size.product(0, std::min(size.split, rank)) > 1;
  int64_t leftOfJoined = size.product(0, std::min(size.concat, rank));
  if (traits.splits && size.split < size.concat)
    leftOfJoined /= n;
  // What is combined must arrive beside the rank's own part.
  staging.receive = traits.reduces || (traits.joins && leftOfJoined > 1);
  staging.segment = staging.send || staging.receive
                        ? collectiveSegment(staging.block, n - 1, size.elementBytes)
                        : std::max<int64_t>(1, staging.block);
  return staging;
}

/// Scratch memory that a rank needs, in bytes, to be aligned to 64. Bounded by 2 MiB up to 65 ranks.
inline int64_t collectiveScratchBytes(const CollectiveSize &size) {
  if (size.ranks == 1)
    return 0;
  CollectiveStaging staging = collectiveStaging(size);
  return (int64_t(staging.send) + int64_t(staging.receive)) * (size.ranks - 1) * staging.segment *
         size.elementBytes;
}

/// For permute: the member of the group from which each member receives its block. `before` and `after`
/// number the blocks that the members hold before and after; equal numbers are equal contents. A member that
/// holds its block already keeps it; the k-th other member that needs a block takes it from the k-th other
/// member that holds it. An entry is -1 when no member holds the block.
inline std::vector<int64_t> permuteSources(const std::vector<int64_t> &before,
                                           const std::vector<int64_t> &after) {
  std::vector<int64_t> sources(after.size(), -1);
  for (size_t i = 0; i < after.size(); ++i) {
    if (before[i] == after[i]) {
      sources[i] = int64_t(i);
      continue;
    }
    int64_t earlier = 0;
    for (size_t j = 0; j < i; ++j)
      earlier += after[j] == after[i] && before[j] != after[j];
    std::vector<int64_t> holders, freeHolders;
    for (size_t j = 0; j < before.size(); ++j) {
      if (before[j] != after[i])
        continue;
      holders.push_back(int64_t(j));
      if (after[j] != before[j])
        freeHolders.push_back(int64_t(j));
    }
    const std::vector<int64_t> &from = freeHolders.empty() ? holders : freeHolders;
    if (!from.empty())
      sources[i] = from[earlier % int64_t(from.size())];
  }
  return sources;
}

} // namespace tessera::rt
