// Jobs files and cluster files; docs/scheduling.md begins with one of each.
#ifndef TESSERA_LIB_SCHEDULER_READFILES_H
#define TESSERA_LIB_SCHEDULER_READFILES_H

#include "lib/Scheduler/Job.h"
#include "lib/Scheduler/ReadThroughput.h"
#include "llvm/ADT/StringRef.h"
#include <variant>

namespace tessera::scheduler {

/// What is wrong with a file, as `file:line:column: what`.
struct Problem {
  std::string text;
};

/// The cluster that `text` describes; `file` is for messages.
std::variant<Cluster, Problem> readCluster(llvm::StringRef text, llvm::StringRef file);

/// The jobs that `text` describes, in the order of their arrival. Each of them fits the cluster.
/// `files` reads throughput tables that are files of their own.
std::variant<std::vector<Job>, Problem> readJobs(llvm::StringRef text, llvm::StringRef file,
                                                 const Cluster &cluster, const FileReader &files = {});

} // namespace tessera::scheduler
#endif
