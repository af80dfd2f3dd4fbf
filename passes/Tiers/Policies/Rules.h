// The moves of each policy for comparison. Nothing where its rule finds no room. Internal to policies.
#ifndef TESSERA_PASSES_TIERS_POLICIES_RULES_H
#define TESSERA_PASSES_TIERS_POLICIES_RULES_H

#include "passes/Tiers/Tiers.h"
#include <optional>
#include <vector>

namespace tessera::tiers {

using Moves = std::optional<std::vector<Move>>;

/// Puts away what was used longest ago.
Moves leastRecentlyUsed(const Step &step, const Limits &limits);
/// Puts away what is used last, as in Belady, A Study of Replacement Algorithms for a Virtual-Storage
/// Computer (1966).
Moves farthestNextUse(const Step &step, const Limits &limits);
/// Fang et al., Parallel Training of Pre-Trained Models via Chunk-Based Dynamic Memory Management (2022).
Moves patrickStar(const Step &step, const Limits &limits);
/// Huang et al., Elixir: Train a Large Language Model on a Small GPU Cluster (2022).
Moves elixir(const Step &step, const Limits &limits);
/// Ren et al., ZeRO-Offload: Democratizing Billion-Scale Model Training (2021).
Moves zeroOffload(const Step &step, const Limits &limits);

} // namespace tessera::tiers
#endif
