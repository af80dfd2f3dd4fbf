// A simulated rank: where it is in its program, what it has started, and where its time went.
#pragma once

#include "runtime/program/trace.h"
#include "runtime/simulate/world.h"

#include <deque>
#include <limits>
#include <optional>

namespace tessera::rt {

/// What the rank has handed to its communication.
struct SimulatedJob {
  size_t step;
  bool begun = false;
};

struct Actor {
  size_t cls = 0;
  const std::vector<SimulatedStep> *steps = nullptr;
  /// What its work takes, of what a rank's usually takes.
  double slowness = 1;
  size_t at = 0;
  /// What its own clock shows; ahead of the simulation's while it only computes.
  double now = 0;
  /// By step: when what it started is done; infinity while it is not.
  std::vector<double> done;
  std::optional<size_t> waitsFor; ///< a step
  /// Its communication: what is first is under way. One queue, or on GPUs one for each group.
  std::map<int64_t, std::deque<SimulatedJob>> queues;
  PerDirection<double> ways; ///< until when they are busy
  double updating = 0;       ///< until when the host is

  size_t loopBegin = 0;
  int64_t turn = 0, executed = 0;

  /// Transfers under way, and those that later waits may still look at.
  struct Span {
    double begin, end;
    size_t axes;
  };
  std::vector<Span> spans;
  double computing = 0, ofRanks = 0, ofStages = 0, ofCopies = 0;
  std::vector<double> exposed, transferred; ///< by axes
  std::unique_ptr<TraceRecorder> trace;

  bool isFinished() const { return at == steps->size(); }
  const SimulatedStep &step() const { return (*steps)[at]; }
  bool isDone(size_t step) const { return done[step] < std::numeric_limits<double>::infinity(); }

  /// It waits for communication from `now` to `until`: for what of the time transfers of its own were under
  /// way, and for the rest the others.
  void wait(double until, bool forStage);
};

} // namespace tessera::rt
