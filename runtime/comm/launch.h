// Starts the ranks of a program: as processes of mpirun, or as threads of this process.
#pragma once

#include "runtime/comm/transport.h"

#include <chrono>
#include <cstdint>
#include <functional>

namespace tessera::rt {

/// Whether an MPI launcher (mpirun, or a batch system through PMI) started this process.
bool underMpi();

/// Whether this process is one of several ranks, by MPI or by the variables of torchrun.
bool underLauncher();

/// Whether this process is rank 0, or the only one, by the launcher's variables alone: without meeting the
/// others.
bool isFirstProcess();

/// Runs `body` for this process' rank, under a launcher. See runMpi and runTcp.
int runProcess(const std::function<void(Transport &)> &body,
               std::chrono::seconds patience = std::chrono::seconds(60));

/// Runs `body` once for each of `ranks` ranks: in this process' rank under a launcher, otherwise in one
/// thread each. When a rank throws, one line `error: ...` is printed and every rank ends: under MPI by
/// MPI_Abort, else the result is 1. A number of ranks other than the launcher's is an error, unless
/// `anyNumber` leaves that to the body. Returns the exit status of the process, 0 or 1.
int launch(int64_t ranks, const std::function<void(Transport &)> &body, bool anyNumber = false);

} // namespace tessera::rt
