// What a training says of itself in its checkpoints, and what is made of it when another one goes on.
#pragma once

#include "runtime/app/options.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/program/description.h"

#include <cstdint>
#include <string>

namespace tessera::rt {

/// The model, the plan, the options that have an effect, and the data: of each file its size, and the
/// checksum of its first MiB. `batch`: samples a step. Reads the files of data; throws their Error.
CheckpointMetadata identityOf(const Description &description, const Options &options, int64_t batch);

/// Compares a checkpoint's with ours. Throws Error for another optimizer, and, unless `accept`, for what
/// would change the training without a word: another model, other data, another order of it. What else
/// differs is returned as a text, `lr 0.1, now 0.2; ...`, and of what the checkpoint does not say what is
/// taken for ours in `unsaid`.
std::string compareIdentities(const std::string &path, const CheckpointMetadata &theirs,
                              const CheckpointMetadata &ours, bool accept, std::vector<std::string> &unsaid);

/// What `--seed` is by default: what the steps before were made with, or 0 where a checkpoint does not say.
uint64_t seedOf(const std::string &path, const CheckpointMetadata &metadata);

} // namespace tessera::rt
