// What simulated runs say of themselves: JSON, a page, a table of text.
#ifndef TESSERA_LIB_SCHEDULER_REPORT_H
#define TESSERA_LIB_SCHEDULER_REPORT_H

#include "lib/Scheduler/Engine.h"

namespace tessera::scheduler {

/// One policy on one list of jobs.
struct Run {
  std::string policy;
  double gap = 0; ///< of the trace; 0 for a jobs file
  uint64_t seed = 0;
  std::vector<Job> jobs;
  Result result;
  double forecast = 0; ///< of a real run: the mean completion that was simulated before
};

/// One run with each of its jobs, or, of several, the mean completion by policy and gap and each run in
/// short. Only `decisions.max_seconds` differs where the same is simulated twice.
std::string jsonOf(const std::vector<Run> &runs, const Cluster &cluster);

/// A page that needs no network: mean completions, and of the first run of each policy who had which places
/// when.
std::string pageOf(const std::vector<Run> &runs, const Cluster &cluster);

/// Mean completions, a line a policy.
std::string tableOf(const std::vector<Run> &runs);

} // namespace tessera::scheduler
#endif
