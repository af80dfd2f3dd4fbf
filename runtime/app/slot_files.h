// The files of a training's slots, one a rank, and what is said in them of the steps that they hold.
#pragma once

#include "runtime/checkpoint/manifest.h"
#include "runtime/program/slots.h"

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace tessera::rt {

/// What the names of the files of one mesh begin with.
std::string slotFilesPrefix(const Mesh &mesh);

/// Opens a rank's file in `folder`, or makes it; `existing`: null where there is none of this program. Throws
/// as Slots.
std::unique_ptr<Slots> openSlots(const std::string &folder, const Description &description,
                                 const Program &program, int rank, bool existing = false);

/// The name of the run that checkpoints in a folder, made when none has one. By one rank.
std::string runOf(const std::string &checkpoints);
/// What is in slots is of no use from now on.
void forgetRun(const std::string &checkpoints);

/// What is said of the state after a step of a run: a manifest without variables.
std::string sayOf(Manifest said, const std::string &run);
/// What is said in slots, by step, of this run's steps. Text that nobody wrote so is passed over.
std::map<int64_t, Manifest> saidIn(const Slots &slots, const std::string &run);

/// What the ranks of another mesh have left in `folder`, written as a checkpoint: the newest step that all of
/// them have, if it is later than `after`. By one rank, on the host of all of them. Returns the checkpoint's
/// path. `program`: what they ran, by its name.
std::optional<std::string> saveSlotsOf(const Description &other, const std::string &program,
                                       const std::string &folder, const std::string &run, int64_t after,
                                       const std::string &checkpoints);

} // namespace tessera::rt
