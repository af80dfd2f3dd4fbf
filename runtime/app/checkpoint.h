// Checkpoints: one safetensors file a checkpoint, with parameters and optimizer state whole, so that any
// program of the model goes on from it.
#pragma once

#include "runtime/program/session.h"

#include <cstdint>
#include <map>
#include <string>

namespace tessera::rt {

/// Together: writes DIR/step-N.safetensors, complete or not at all; `metadata` goes into its header, with the
/// model's hash and the optimizer.
void saveCheckpoint(Session &session, const Description &description, const std::string &folder, int64_t step,
                    std::map<std::string, std::string> metadata = {});

/// Together: loads the checkpoint with the highest step; returns that step, and what else was saved with it.
/// Throws when the folder holds none, or when it is of another model or optimizer; where it does not say (as
/// those of older programs), prints a note and takes it.
int64_t resumeCheckpoint(Session &session, const Description &description, const std::string &folder,
                         std::map<std::string, std::string> &metadata);

} // namespace tessera::rt
