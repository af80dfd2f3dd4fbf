// What becomes of a set of jobs if they get these places now.
#ifndef TESSERA_LIB_SCHEDULER_FASTFORWARD_H
#define TESSERA_LIB_SCHEDULER_FASTFORWARD_H

#include "lib/Scheduler/Job.h"
#include <cstddef>
#include <vector>

namespace tessera::scheduler {

/// A job as a fast-forward sees it.
struct Ahead {
  double samples = 0;                         ///< left
  const std::vector<double> *speed = nullptr; ///< samples/s by number of places
  int fewest = 1, most = 1;
  int begin = 1; ///< places that it gets when it comes from the queue
  int held = 0;  ///< places now
  Pauses pauses; ///< what starting it takes, and another number of places
};

/// Runs jobs to their ends on `places` places without any further arrival: `counts[i]` places for job i at
/// first; each end gives its places to those that wait, the least time x places first, and then to the
/// running job that gains most.
class FastForward {
public:
  FastForward(const std::vector<Ahead> &jobs, int places);
  /// The sum of the ends, seconds from now; infinite when nothing runs that others could wait for.
  double run(const std::vector<int> &counts);
  /// The end of each job in the last run.
  const std::vector<double> &ends() const { return end; }

private:
  void start(size_t job, int count, double at);
  void giveAway(double now);

  const std::vector<Ahead> &jobs;
  int places;
  std::vector<size_t> queue; // all jobs in the order in which they leave it
  // Of the last run.
  std::vector<double> end;
  std::vector<int> count;
  std::vector<size_t> running, waiting;
  int free = 0;
};

} // namespace tessera::scheduler
#endif
