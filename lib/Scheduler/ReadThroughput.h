// How fast a job is on how many places: a table in the jobs file, or one of the compiler's.
#ifndef TESSERA_LIB_SCHEDULER_READTHROUGHPUT_H
#define TESSERA_LIB_SCHEDULER_READTHROUGHPUT_H

#include "lib/Scheduler/Job.h"
#include "lib/Scheduler/TomlReader.h"
#include <functional>
#include <variant>

namespace tessera::scheduler {

/// The text of a file; none where it cannot be read.
using FileReader = std::function<std::optional<std::string>(const std::string &path)>;

/// Reads the key `throughput`: a table from places to samples/s, or the name of a file that
/// `tessera plan MODEL --auto --ranks 1,2,4 --json` wrote, whose batch is the same on any places. A job with
/// an executable needs none.
void readThroughput(TomlReader &reader, const toml::table &table, Job &job, const FileReader &files);

/// The table in the text of such a file: of each of its `plans`, `ranks` and `samples_per_second`. Else what
/// is wrong with it.
std::variant<std::map<int, double>, std::string> plannedThroughput(llvm::StringRef text);

} // namespace tessera::scheduler
#endif
