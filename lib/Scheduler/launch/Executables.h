// What executables say of themselves, and what starts their ranks.
#ifndef TESSERA_LIB_SCHEDULER_LAUNCH_EXECUTABLES_H
#define TESSERA_LIB_SCHEDULER_LAUNCH_EXECUTABLES_H

#include "lib/Scheduler/ReadFiles.h"

namespace tessera::scheduler {

/// Asks each executable of each job, by `OUT info --json`, whether it is for so many ranks and for the batch
/// that the job asks for, and takes over the promised speed where the job has no throughput table. `file` is
/// the jobs file, for messages.
std::optional<Problem> askExecutables(std::vector<Job> &jobs, const std::string &file);

/// The words that start ranks by a launcher, see launchWords.
/// A problem where it cannot serve the cluster; `file` is the cluster's, for messages.
std::variant<std::vector<std::string>, Problem>
launcherCommand(llvm::StringRef launcher, const Cluster &cluster, const std::string &file);

} // namespace tessera::scheduler
#endif
