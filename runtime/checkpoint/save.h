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

/// A checkpoint that all ranks write, part after part. One that is not complete when it goes away leaves
/// nothing. All that is given must outlive it.
class CheckpointSave {
public:
  /// Together: makes the folder. `manifest` has the step, samples and metadata.
  CheckpointSave(Session &session, const Description &description, const Unchanged &unchanged,
                 const std::string &path, Manifest manifest);
  ~CheckpointSave();
  CheckpointSave(const CheckpointSave &) = delete;
  CheckpointSave &operator=(const CheckpointSave &) = delete;

  /// By each rank, on any thread: brings its share to the disk. `data(i)`: its part of variable i, asked for
  /// when a piece is written; `hasRead` is called when all has been.
  void write(const std::function<const void *(size_t)> &data, const std::function<void()> &hasRead = {});
  /// The same with other pieces than the session's: all that are given to all ranks must be each variable
  /// whole, but for `unchanged`.
  void write(const std::vector<PieceToWrite> &pieces, const std::function<void()> &hasRead = {});
  /// Together, when all have written: rank 0 learns what and where.
  void gather();
  /// By rank 0 then, on any thread: the checkpoint has its name.
  void commit();

private:
  Session &session;
  const Description &description;
  const Unchanged &unchanged;
  const std::string path;
  const CheckpointWriter writer;
  Manifest manifest;
  std::string written; ///< what gather() tells the others
  bool isComplete = false;
};

/// Together: writes a checkpoint at `path`, complete or not at all.
void saveCheckpoint(Session &session, const Description &description, const Unchanged &unchanged,
                    const std::string &path, Manifest manifest);

} // namespace tessera::rt
