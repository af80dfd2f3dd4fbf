// Checkpoints: one safetensors file a checkpoint, with parameters and optimizer state whole, so that any
// program of the model goes on from it.
#pragma once

#include "runtime/program/session.h"

#include <cstdint>
#include <map>
#include <string>

namespace tessera::rt {

/// What a checkpoint says beside its tensors.
using CheckpointMetadata = std::map<std::string, std::string>;

/// One to go on from.
struct Checkpoint {
  int64_t step;
  std::string path;
  CheckpointMetadata metadata;
};

/// Together: writes DIR/step-N.safetensors, complete or not at all; `metadata` goes into its header, with the
/// model's hash and the optimizer.
void saveCheckpoint(Session &session, const Description &description, const std::string &folder, int64_t step,
                    CheckpointMetadata metadata);

/// Together: the checkpoint with the highest step in a folder, without those that are cut short or whose
/// header cannot be read, which it warns of. Throws when the folder holds none, or when it is of another
/// model or optimizer; where it does not say (as those of older programs), prints a note and takes it.
Checkpoint findCheckpoint(Session &session, const Description &description, const std::string &folder);

/// What `--seed` is by default: what the steps before were made with, or 0 where the checkpoint does not say.
uint64_t seedOf(const Checkpoint &checkpoint);
/// Adds the seed to what a checkpoint says.
void addSeed(CheckpointMetadata &metadata, uint64_t seed);

} // namespace tessera::rt
