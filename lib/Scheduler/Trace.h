// The built-in trace of jobs.
#ifndef TESSERA_LIB_SCHEDULER_TRACE_H
#define TESSERA_LIB_SCHEDULER_TRACE_H

#include "lib/Scheduler/Job.h"

namespace tessera::scheduler {

struct TraceOptions {
  uint64_t seed = 1;
  double gap = 30; ///< mean seconds between two arrivals, which is uniform from 0 to twice that
  int jobs = 50;
  double scatter = 0.25; ///< of the epochs that jobs of one kind take: the deviation of their logarithm
};

/// Jobs of the ten kinds that ONES (Bian et al., SC'21, section 4.1) was tried on, equally often in random
/// order. Each ends at a target loss, after a number of epochs that scatters about its kind's mean and that
/// policies are not told.
std::vector<Job> onesTrace(const TraceOptions &options);

/// Two ended jobs of each kind: what a cluster knows before a trace begins.
std::vector<Job> onesHistory(const TraceOptions &options);

/// 16 hosts of 4 places, on which a job stands still as was measured with models of three sizes.
Cluster onesCluster();

} // namespace tessera::scheduler
#endif
