// How far jobs may grow, as ONES publishes it.
#ifndef TESSERA_LIB_SCHEDULER_LIMITS_H
#define TESSERA_LIB_SCHEDULER_LIMITS_H

#include "lib/Scheduler/Policy.h"
#include <map>

namespace tessera::scheduler {

/// A job begins with the fewest places that it can run on. Its limit doubles when it has done two epochs at
/// it, up to four times what it asked for (ONES, SC'21, section 3.3).
class Limits {
public:
  static constexpr int kEpochsToGrow = 2;

  /// Takes note of what jobs have done; to be called at every decision.
  void update(const Situation &situation);
  int of(const ActiveJob &job) const;
  /// The job was paused and has been passed over again: its limit is halved.
  void passOver(const ActiveJob &job);

private:
  // A job that has half of the cluster for longer than is usual gives some of it back.
  void cutLargest(const Situation &situation);

  std::map<int, int> limits; // places, by job
};

} // namespace tessera::scheduler
#endif
