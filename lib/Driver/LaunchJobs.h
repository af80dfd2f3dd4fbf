// The jobs of `tessera schedule`, really run.
#ifndef TESSERA_LIB_DRIVER_LAUNCHJOBS_H
#define TESSERA_LIB_DRIVER_LAUNCHJOBS_H

#include "lib/Scheduler/Report.h"

namespace tessera {

struct LaunchPlan {
  std::vector<scheduler::Job> jobs;
  scheduler::Cluster cluster;
  std::string jobsFile, clusterFile; ///< for messages
  std::string policy, launcher;
  std::string folder;  ///< of the jobs' folders
  bool goesOn = false; ///< what lies there is gone on with
  scheduler::PolicyOptions options;
};

/// Runs the jobs. `runs` gets what is simulated of them, and what came. The exit status: 1 too where jobs
/// were set aside, 75 where the user stopped it.
int launchJobs(LaunchPlan plan, std::vector<scheduler::Run> &runs);

} // namespace tessera
#endif
