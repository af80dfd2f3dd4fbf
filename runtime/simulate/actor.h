// A simulated rank: where it is in its program, what it has started, and where its time went.
#pragma once

#include "runtime/simulate/timeline.h"
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
  /// Where processors are shared: when the work that is under way began. `now` is that and what transfers
  /// have taken since, by which the work ends later.
  std::optional<double> worksSince;
  /// Its communication: what is first is under way. One queue, or on GPUs one for each group.
  std::map<int64_t, std::deque<SimulatedJob>> queues;
  PerDirection<double> ways; ///< until when they are busy
  double updating = 0;       ///< until when the host is

  size_t loopBegin = 0;
  int64_t turn = 0, executed = 0;

  /// Transfers under way, and those that later waits may still look at.
  struct Span {
    double begin, end;
    size_t traffic;
    double waited; ///< what the rank had waited at its begin
  };
  std::vector<Span> spans;
  double computing = 0, waited = 0, ofRanks = 0, ofStages = 0, ofCopies = 0;
  std::vector<double> exposed, transferred; ///< by traffic and level
  std::optional<RankTimeline> timeline;

  bool isFinished() const { return at == steps->size(); }
  const SimulatedStep &step() const { return (*steps)[at]; }
  bool isDone(size_t step) const { return done[step] < std::numeric_limits<double>::infinity(); }

  /// It waits for communication from `now` to `until`, in `op`: for what of the time transfers of its own
  /// were under way, and for the rest the others.
  void wait(double until, bool forStage, const Operation &op);
  /// The same for a copy or an update on the host.
  void waitForCopy(double until, const Operation &op);
  /// What it has waited up to `clock`.
  double waitedUntil(double clock) const;
  /// A transfer of its own, in `op`, is over at `clock`: for what of the time the rank computed, the transfer
  /// took a share of that, which the rank does now.
  void endSpan(Span &span, double clock, double share, const Operation &op);

private:
  void record(const Operation &op, double begin, double end, WaitCause cause, size_t traffic = 0);
};

} // namespace tessera::rt
