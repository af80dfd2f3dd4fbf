// What each kind of collective is: one table, without dependencies. The dialect's names and verifier, the
// bytes sent, the scratch memory, the time model, the planning of memory and the runtime's checks are all
// derived from its rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tessera::rt {

enum class CollectiveKind : uint32_t {
  AllReduce,
  AllGather,
  ReduceScatter,
  AllToAll,
  Broadcast,
  Reduce,
  Permute
};

/// Who sends to whom.
enum class CollectiveRoute {
  AllToAll, ///< every rank to every other
  FromRoot,
  ToRoot,
  Permutation ///< every rank receives one block, as layouts or a shift say
};

/// A kind. With n ranks the source is one block, or n of them along the dimension `split`; the result is one
/// block, or n of them along `concat`.
struct CollectiveTraits {
  CollectiveKind kind;
  const char *name;
  CollectiveRoute route;
  bool splits = false;  ///< the source is cut along `split`
  bool joins = false;   ///< blocks are joined along `concat`
  bool reduces = false; ///< what arrives is combined
  /// A reduce-scatter followed by an all-gather of the flattened source, whose n chunks need not be equal.
  bool inTwoPhases = false;

  constexpr bool isRooted() const {
    return route == CollectiveRoute::FromRoot || route == CollectiveRoute::ToRoot;
  }
  constexpr bool permutes() const { return route == CollectiveRoute::Permutation; }
  /// Whether a rank sends another one its block only, not the whole source.
  constexpr bool sendsBlocks() const { return splits || inTwoPhases; }
  constexpr int64_t phases() const { return inTwoPhases ? 2 : 1; }
  /// Whether the result is undefined on all ranks but the root.
  constexpr bool yieldsAtRoot() const { return route == CollectiveRoute::ToRoot; }
};

/// In the order of the enumeration.
inline constexpr CollectiveTraits collectiveKinds[] = {
    {.kind = CollectiveKind::AllReduce,
     .name = "all_reduce",
     .route = CollectiveRoute::AllToAll,
     .reduces = true,
     .inTwoPhases = true},
    {.kind = CollectiveKind::AllGather,
     .name = "all_gather",
     .route = CollectiveRoute::AllToAll,
     .joins = true},
    {.kind = CollectiveKind::ReduceScatter,
     .name = "reduce_scatter",
     .route = CollectiveRoute::AllToAll,
     .splits = true,
     .reduces = true},
    {.kind = CollectiveKind::AllToAll,
     .name = "all_to_all",
     .route = CollectiveRoute::AllToAll,
     .splits = true,
     .joins = true},
    {.kind = CollectiveKind::Broadcast, .name = "broadcast", .route = CollectiveRoute::FromRoot},
    {.kind = CollectiveKind::Reduce, .name = "reduce", .route = CollectiveRoute::ToRoot, .reduces = true},
    {.kind = CollectiveKind::Permute, .name = "permute", .route = CollectiveRoute::Permutation},
};

constexpr const CollectiveTraits &collectiveTraits(CollectiveKind kind) {
  return collectiveKinds[size_t(kind)];
}

constexpr bool areCollectiveKindsInOrder() {
  size_t row = 0;
  for (const CollectiveTraits &traits : collectiveKinds)
    if (size_t(traits.kind) != row++)
      return false;
  return true;
}
static_assert(areCollectiveKindsInOrder(), "row k of the table is the kind with the number k");

/// Such as `all_reduce`, in the IR, the program description and counters.
constexpr const char *collectiveName(CollectiveKind kind) { return collectiveTraits(kind).name; }

constexpr std::optional<CollectiveKind> findCollectiveKind(std::string_view name) {
  for (const CollectiveTraits &traits : collectiveKinds)
    if (name == traits.name)
      return traits.kind;
  return std::nullopt;
}

} // namespace tessera::rt
