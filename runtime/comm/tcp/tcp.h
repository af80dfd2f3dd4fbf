// Ranks that are processes which a launcher such as torchrun has started: they find each other by RANK,
// WORLD_SIZE, MASTER_ADDR and MASTER_PORT and exchange messages over TCP.
#pragma once

#include "runtime/comm/transport.h"

#include <chrono>
#include <functional>

namespace tessera::rt {

/// Whether the four variables are set.
bool underTcp();

/// Connects all ranks, runs `body` for this process' rank, and returns the exit status. An AgreedError is
/// printed by rank 0 and gives status 1; any other exception is printed by this rank and ends all ranks.
/// Throws Error when the ranks do not find each other within `patience`.
int runTcp(const std::function<void(Transport &)> &body, std::chrono::seconds patience);

} // namespace tessera::rt
