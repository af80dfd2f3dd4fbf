// Ranks that are processes of mpirun.
#pragma once

#include "runtime/comm/transport.h"

#include <functional>

namespace tessera::rt {

/// MPI counts are int: longer messages travel in parts of this many bytes.
constexpr int64_t maxMpiMessage = int64_t(1) << 30;

/// Initialises MPI, runs `body` for this process' rank, finalises MPI and returns the exit status. An
/// AgreedError is printed by rank 0 and gives status 1; any other exception is printed by this rank and ends
/// all ranks by MPI_Abort. Throws Error when MPI cannot be loaded or initialised. `maxMessage` is for tests.
int runMpi(const std::function<void(Transport &)> &body, int64_t maxMessage = maxMpiMessage);

} // namespace tessera::rt
