// Saving a session's variables as a checkpoint, by all ranks together.
#pragma once

#include "runtime/checkpoint/writer.h"
#include "runtime/program/session.h"

#include <functional>
#include <map>
#include <string>

namespace tessera::rt {

/// Whether training leaves a variable as it is: constants of the model, parameters that are frozen.
bool neverChanges(const Variable &variable);

/// By variable, where those are that never change; what is not here is written.
using Unchanged = std::map<size_t, Elsewhere>;

/// Together: finds the `wanted` variables in weights files, each in the first that has it, and what they hold
/// there. Paths where nothing is are passed over.
Unchanged findInWeights(Session &session, const Description &description, const std::vector<bool> &wanted,
                        const std::vector<std::string> &paths);
/// The variables of the session that never change and come from a file.
std::vector<bool> unchangedVariables(Session &session, const Description &description);

/// What a rank of these coordinates writes of a checkpoint: of each variable that it holds a share that is as
/// large as that of the other ranks that hold the same. `isHolder(i)`: whether this rank's stage writes
/// variable i; `data(i)`: its part of it, asked for when a piece is written.
std::vector<PieceToWrite> sharesOf(const Description &description, const Coordinates &coordinates,
                                   const Unchanged &unchanged, const std::function<bool(size_t)> &isHolder,
                                   const std::function<const void *(size_t)> &data);

/// Bytes of one checkpoint, without headers and manifest.
uint64_t checkpointBytes(Session &session, const Description &description, const Unchanged &unchanged);

/// Together: writes a checkpoint at `path`, complete or not at all. `manifest` has its step, samples and
/// metadata.
void saveCheckpoint(Session &session, const Description &description, const Unchanged &unchanged,
                    const std::string &path, Manifest manifest);

} // namespace tessera::rt
