// Going on from a checkpoint, by all ranks together, whatever program of the model wrote it.
#pragma once

#include "runtime/checkpoint/folder.h"
#include "runtime/checkpoint/save.h"
#include "runtime/program/session.h"

#include <optional>
#include <string>
#include <vector>

namespace tessera::rt {

/// One to go on from.
struct Checkpoint {
  CheckpointEntry entry;
  CheckpointMetadata metadata;
  /// Steps done, and the samples that they took, where it is known.
  int64_t step = 0;
  std::optional<int64_t> samples;
  /// Of one that is a folder.
  std::optional<Manifest> manifest;
};

/// Together: the newest checkpoint of a folder that is whole to the last byte; ranks share the reading. Warns
/// of newer ones that are damaged, by rank 0. Throws Error where there are checkpoints and none is whole;
/// nothing where there is none, or no folder.
std::optional<Checkpoint> findNewestWhole(Session &session, const std::string &folder);

/// Together: fills the session's variables. `weights`: files in which those may be that never change, beside
/// the one that the checkpoint names. Returns where those are.
Unchanged loadCheckpoint(Session &session, const Description &description, const Checkpoint &checkpoint,
                         const std::vector<std::string> &weights);

} // namespace tessera::rt
