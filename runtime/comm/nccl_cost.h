// What a collective of NCCL sends between nodes and within them, as formulas without dependencies.
#pragma once

#include "runtime/comm/collective_cost.h"

namespace tessera::rt {

/// What a rank sends to others of its node and to other nodes, both at the same time.
struct NodeLoads {
  CollectiveLoad between, within;
};

/// Of a collective over `ranks` ranks that are on `nodes` nodes, as many on each, whose source has `bytes`
/// bytes. A ring passes all of a node's ranks one after the other and leaves the node once, and there are as
/// many rings as ranks of a node, each of which leaves it from another rank: so a rank sends to the next node
/// the part of one of them. All-to-all and permutations send each block straight to where it belongs. How
/// many messages wait for each other follows NCCL's own model of time (src/graph/tuning.cc): an all-reduce
/// over nodes may be by trees, and so may all kinds where each rank has a node of its own.
inline NodeLoads ncclLoads(CollectiveKind kind, int64_t ranks, int64_t nodes, double bytes) {
  const CollectiveTraits &traits = collectiveTraits(kind);
  if (ranks < 2)
    return {};
  if (traits.permutes())
    return {{1, bytes}, {}};
  const double here = double(ranks) / double(nodes), others = double(ranks - 1),
               phases = double(traits.phases());
  const double sent = traits.isRooted() ? bytes : collectiveSentShare(kind, double(ranks)) * bytes;
  const bool isDirect = traits.splits && traits.joins, isTree = nodes == ranks || traits.inTwoPhases;
  NodeLoads loads;
  loads.between.rounds = phases * double(isDirect || isTree ? collectiveRounds(nodes) : nodes - 1);
  loads.between.bytes = isDirect ? sent * (double(ranks) - here) / others : sent / here;
  if (nodes == ranks)
    return loads;
  loads.within.rounds = phases * double(collectiveRounds((ranks + nodes - 1) / nodes));
  loads.within.bytes = sent - loads.between.bytes;
  return loads;
}

} // namespace tessera::rt
