// Public traces of clusters: which jobs came when, on how many places, for how long.
#ifndef TESSERA_LIB_SCHEDULER_TRACEFILES_H
#define TESSERA_LIB_SCHEDULER_TRACEFILES_H

#include "lib/Scheduler/ReadFiles.h"

namespace tessera::scheduler {

using TraceJobs = std::variant<std::vector<Job>, Problem>;

/// Microsoft's Philly (Jeon et al., ATC'19): its `cluster_job_log`, JSON. The jobs that passed.
TraceJobs readPhilly(llvm::StringRef text, llvm::StringRef file);

/// Alibaba's PAI (Weng et al., NSDI'22): its `pai_task_table.csv`, with or without a line of column names.
/// The jobs of which all tasks terminated and some had GPUs; a part of one counts as a place.
TraceJobs readAlibaba(llvm::StringRef text, llvm::StringRef file);

/// Lets the first job come at 0 and keeps the first `most`; each has to fit the cluster.
TraceJobs fitTrace(std::vector<Job> jobs, size_t most, const Cluster &cluster, llvm::StringRef file);

} // namespace tessera::scheduler
#endif
