// What runs the jobs: a simulation, or processes of this machine.
#ifndef TESSERA_LIB_SCHEDULER_RUNNER_H
#define TESSERA_LIB_SCHEDULER_RUNNER_H

#include "lib/Scheduler/Policy.h"

namespace tessera::scheduler {

/// How a job stands.
struct Progress {
  double done = 0;       ///< useful samples
  double begin = kNever; ///< since when it works on the places that it has now; kNever: not yet
  double loss = 0;       ///< 0 where it is not known
  double measured = 0;   ///< samples/s on the places that it has now; 0: not measured
  bool ended = false;    ///< it will do no more
  std::string error;     ///< of a job that ended without being done: why
};

/// The event loop decides who has which place; this carries it out and says what came of it. Jobs are named
/// by their indices.
class Runner {
public:
  virtual ~Runner() = default;
  /// Lets time pass until `seconds` after the start, or until a job ends if that is earlier. Returns the
  /// time; kNever where nothing will ever happen.
  virtual double wait(double until) = 0;
  /// The job gets these places instead of those that it has; none: it has to pause. `restarts`: it goes on
  /// from a checkpoint, else its places change while it runs.
  virtual void change(int job, const std::vector<int> &places, bool restarts) = 0;
  virtual Progress progress(int job) const = 0;
  /// When the job is expected to have done so many samples; kNever without places.
  virtual double due(int job, double samples) const = 0;
  /// Adds the losses at the ends of epochs, until there are `epochs` of them or no more are known.
  virtual void addLosses(int job, int epochs, std::vector<double> &losses) const = 0;
  /// Whether the user wants to end it all.
  virtual bool stopped() const { return false; }
};

} // namespace tessera::scheduler
#endif
