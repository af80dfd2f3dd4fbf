// Starts the ranks of a program: as processes of mpirun, or as threads of this process.
#pragma once

#include "runtime/comm/transport.h"

#include <cstdint>
#include <functional>
#include <optional>

namespace tessera::rt {

/// Number of processes that an MPI launcher started this program with; nothing when it was started without one.
std::optional<int64_t> launchedRanks();

/// Runs `body` once for each of `ranks` ranks: in this process' rank under an MPI launcher, otherwise in one thread each.
/// Prints one line `error: ...` when a rank throws and returns the exit status, 0 or 1. Under MPI a single rank's error ends
/// the process by MPI_Abort instead. Number of ranks other than the launcher's are an error.
int launch(int64_t ranks, const std::function<void(Transport &)> &body);

} // namespace tessera::rt
