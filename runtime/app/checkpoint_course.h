// When a training writes its checkpoints, and what becomes of those that cannot be written.
#pragma once

#include "runtime/app/checkpoint.h"

#include <chrono>
#include <cstdint>
#include <functional>

namespace tessera::rt {

/// A disk that is full may have room again at the next checkpoint, so that one which cannot be written is a
/// warning, and ends the training only when those before it could not be either. All functions are for all
/// ranks together.
class CheckpointCourse {
public:
  /// `besideSteps`: the state lies in slots, so that the next steps leave what is written as it is. All must
  /// outlive this.
  CheckpointCourse(Checkpoints &checkpoints, const Options &options, bool besideSteps, bool tells)
      : checkpoints(checkpoints), options(options), besideSteps(besideSteps), tells(tells) {}

  /// What `step` has left, of which `manifest` says more, if it is due; and before it the one that is under
  /// way. `isLast`: nothing comes after it, so it waits for that as long as it takes.
  void afterStep(int64_t step, bool isLast, const std::function<Manifest()> &manifest);
  /// Writes one now, when what is under way is written.
  void save(Manifest manifest);
  /// Returns when none is under way.
  void finish();
  /// The step of the last one that is written; 0: none of this run.
  int64_t savedStep() const { return saved; }

private:
  void look(std::chrono::seconds longest);
  void orWarn(int64_t step, const std::function<void()> &write);
  void setSaved(int64_t step) {
    failed = 0;
    saved = step;
  }

  Checkpoints &checkpoints;
  const Options &options;
  const bool besideSteps, tells;
  bool isLeftOut = false; ///< one that was due, which the user knows
  int failed = 0;         ///< since the last
  int64_t saved = 0;
};

} // namespace tessera::rt
