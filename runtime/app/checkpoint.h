// The checkpoints of one training: where it goes on from, when it writes which, and what it keeps.
#pragma once

#include "runtime/app/on_checkpoint.h"
#include "runtime/app/options.h"
#include "runtime/checkpoint/background_save.h"
#include "runtime/checkpoint/load.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tessera::rt {

/// The folder of --checkpoint, and what --resume and --continue find. All functions are for all ranks
/// together.
class Checkpoints {
public:
  /// `own`: the weights beside the executable. All must outlive this.
  Checkpoints(Session &session, const Description &description, const Options &options, std::string own);
  /// Leaves nothing behind where nothing was written.
  ~Checkpoints();
  Checkpoints(const Checkpoints &) = delete;
  Checkpoints &operator=(const Checkpoints &) = delete;

  /// Takes the folder of --checkpoint for this run; throws Error where another run has it, or it cannot be
  /// written.
  void open();
  /// What to go on from, whole; nothing for a training from the start. Says which, for --continue. Throws
  /// Error where --resume finds none, and for one of a step beyond --steps or of another optimizer.
  std::optional<Checkpoint> find();
  /// The one that handOn has written, there or, where that is --checkpoint's folder, as one of these.
  Checkpoint findHandedOn(const std::string &folder);
  /// Which variables that never change are in weights, and where.
  Unchanged findUnchanged();
  /// Fills the variables from what find() gave.
  void load(const Checkpoint &checkpoint);
  /// Looks whether there is room for one checkpoint, and makes ready to write; before the first step.
  void prepare();
  /// Writes one, then removes those that --keep does not ask for. Throws AgreedError where it cannot be
  /// written: no part of it is left, and one before is still there.
  void save(Manifest manifest);
  /// The same beside the next steps, of a session whose state lies in slots. None must be under way.
  void start(Manifest manifest);
  /// The step of the one that is under way.
  std::optional<int64_t> underWay() const {
    return background ? std::optional(background->step()) : std::nullopt;
  }
  /// Looks for up to `patience` whether it is written. None is under way afterwards if so, and where that
  /// throws AgreedError since it could not be.
  bool isWritten(std::chrono::duration<double> patience);
  /// Before step `step` writes over what is still to be written to the disk.
  void beforeStep(int64_t step) const;
  /// Writes one into a folder in memory, for the same training on other ranks; false, and nothing is there,
  /// where that has no room.
  bool handOn(Manifest manifest, const std::string &folder);
  /// Waits for what --on-checkpoint has started.
  void finish();

private:
  std::vector<std::string> weights() const { return {options.weights, own}; }
  void compare(int64_t step);
  /// By rank 0, when a checkpoint has been written.
  void keepWritten(int64_t step);
  void removeOlder(int64_t step);

  Session &session;
  const Description &description;
  const Options &options;
  const std::string own;
  std::vector<std::string> created;
  std::unique_ptr<FolderLock> lock;
  Unchanged unchanged;
  bool isContinued = false; ///< where the unchanged variables are is known, or they are in the checkpoint
  OnCheckpoint command;
  std::unique_ptr<BackgroundSave> background;
};

} // namespace tessera::rt
