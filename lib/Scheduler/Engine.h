// The event loop: jobs come and end, a policy decides, what follows is recorded.
#ifndef TESSERA_LIB_SCHEDULER_ENGINE_H
#define TESSERA_LIB_SCHEDULER_ENGINE_H

#include "lib/Scheduler/Runner.h"

namespace tessera::scheduler {

/// Where time comes from. The loop says until when nothing will happen; policies cannot tell the clocks
/// apart.
class Clock {
public:
  virtual ~Clock() = default;
  /// Waits until `seconds` after the start.
  virtual void waitUntil(double seconds) = 0;
};

/// It is whatever time the loop waits for.
class SimulatedClock : public Clock {
public:
  void waitUntil(double) override {}
};

/// A job got other places, or none.
struct Change {
  double time = 0;
  int job = 0;
  std::vector<int> places;
  double batch = 0, loss = 0; ///< samples of all places in a step; 0 where the job has no loss
};

struct JobResult {
  double start = 0, end = 0; ///< seconds
  int starts = 0, resizes = 0;
  double forecastEnd = kNever; ///< by the first decision that had an opinion
  double forecastAt = 0;       ///< when that was
  std::string error;           ///< why it was set aside; empty for one that is done
};

/// Seconds of all places: work + idle + resize = places x span.
struct PlaceSeconds {
  double work = 0, idle = 0, resize = 0;
};

struct Result {
  std::vector<JobResult> jobs; ///< as the jobs were given
  std::vector<Change> changes;
  PlaceSeconds seconds;
  double span = 0; ///< until the last job ended
  int decisions = 0;
  double slowestDecision =
      0; ///< seconds of this machine's time: the only number that differs between two runs

  /// Seconds from arrival to end, over the jobs that are done.
  double meanCompletion(const std::vector<Job> &jobs) const;
};

struct EngineOptions {
  uint64_t seed = 1; ///< of the noise in reported losses
  bool elastic =
      false; ///< every policy has what `ones` has: resizes without a restart, and batches that grow
};

/// Runs jobs, sorted by arrival, to their ends, in a simulation.
Result simulate(const std::vector<Job> &jobs, const Cluster &cluster, Policy &policy, Clock &clock,
                const EngineOptions &options = {});

/// The same with a runner of one's own. Jobs keep the batch that they asked for.
Result schedule(const std::vector<Job> &jobs, const Cluster &cluster, Policy &policy, Runner &runner);

} // namespace tessera::scheduler
#endif
