// Checkpoints without a program: what `tessera checkpoint` and `tessera convert` do with them.
#pragma once

#include "runtime/checkpoint/folder.h"

#include <string>
#include <vector>

namespace tessera::rt {

/// The checkpoint itself that a path leads to, or those of a folder, the newest first. Throws Error where
/// there is none.
std::vector<CheckpointEntry> checkpointsAt(const std::string &path);

/// A table of them: step, samples, size, files; of damaged ones what their manifests show to be wrong.
std::string listCheckpoints(const std::vector<CheckpointEntry> &entries);

/// What a full check of each has found, a line each; how many are damaged in `damaged`.
std::string verifyCheckpoints(const std::vector<CheckpointEntry> &entries, int64_t &damaged);

/// Removes from a folder that no run writes into those that the rule does not keep, and what ended runs left.
/// Only whole ones count; damaged ones stay. Returns what was done, a line each.
std::string pruneCheckpoints(const std::string &folder, const KeepRule &rule);

/// Writes what one holds as a single safetensors file, its parameters alone or all of it. Of a folder of
/// checkpoints the newest whole one; what was passed over is added to `warnings`.
void joinCheckpoint(const std::string &path, const std::string &output, bool parametersAlone,
                    std::vector<std::string> &warnings);

} // namespace tessera::rt
