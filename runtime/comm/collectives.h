// Collectives, written once over the point-to-point transport, so that threads and MPI give the same bits.
//
// Every collective that cuts an array exchanges blocks directly, one message (or one per segment) to every
// other member. That sends as little as a ring does (2(n-1)/n B by the mean rank for all_reduce), needs one
// hop instead of n-1, and lets the owner of a block add all contributions at once: in order of index,
// rounding bf16 and f16 once, from an f32 sum.
#pragma once

#include "runtime/comm/collective_cost.h"
#include "runtime/comm/combine.h"
#include "runtime/comm/transport.h"
#include "runtime/core/dtype.h"
#include "runtime/core/mesh.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::rt {

/// A collective as the program description has it.
struct CollectiveRequest {
  std::string kind, reduce = "sum";
  Axes axes;
  DType dtype = DType::F32;
  /// The local source array by atoms.
  std::vector<int64_t> shape;
  int64_t split = 0, concat = 0;
  /// Of broadcast and reduce: the index in `axes` of the rank that has or gets the value.
  int64_t root = 0;
  /// Of broadcast: "direct", "tree" or "chain".
  std::string algorithm = "chain";
  /// Of permute: the axes of every atom, in order, before and after.
  std::vector<Axes> before = {}, after = {};
  /// Or, where it is not 0: every rank receives from the one that many further on in the group, round and
  /// round.
  int64_t shift = 0;
};

/// A collective as one rank executes it: checked, with its group.
struct Collective {
  CollectiveSize size;
  Reduction reduction = Reduction::Sum;
  DType dtype = DType::F32;
  int64_t root = 0;
  BroadcastAlgorithm algorithm = BroadcastAlgorithm::Chain;
  Group group;
  /// The labels under which it is counted: `data,tensor`, `all_reduce`.
  std::string axes, kind;
  /// The order in which members are added.
  std::vector<SumLevel> sumLevels;
  /// Of permute: the member from which each member receives.
  std::vector<int64_t> sources;
  /// Which of the program's operations it is; below 0: none.
  int64_t operation = -1;

  int64_t inBytes() const { return size.bytes(); }
  int64_t outBytes() const { return collectiveResultBytes(size); }
  int64_t scratchBytes() const { return collectiveScratchBytes(size); }
  /// Bytes that this rank sends; over the group they add up to collectiveSentBytes.
  int64_t sentBytes() const;
};

/// The kind of a name such as `all_reduce`. Throws Error for another name.
CollectiveKind parseCollectiveKind(const std::string &name);

/// Checks a collective and finds the group that `rank` is in. Throws Error for a shape that the group does
/// not divide, a reduction that the element type does not have, a permute that needs a block nobody holds.
Collective makeCollective(const CollectiveRequest &request, const Mesh &mesh, int64_t rank);

/// Executes a collective; all members of the group do so in the same order. `in` and `out` may be the same
/// for all_reduce, broadcast and reduce, else they must not overlap. `scratch` has scratchBytes(), aligned
/// to 64. After reduce, `out` is undefined on all ranks but the root (and may be null there). Throws Error
/// when a member fails.
void runCollective(Transport &transport, const Collective &collective, const void *in, void *out,
                   void *scratch);

} // namespace tessera::rt
