// What a job of a jobs file launches.
#ifndef TESSERA_LIB_SCHEDULER_READPROGRAM_H
#define TESSERA_LIB_SCHEDULER_READPROGRAM_H

#include "lib/Scheduler/Job.h"
#include "lib/Scheduler/TomlReader.h"

namespace tessera::scheduler {

/// Reads the keys `executable`, `arguments` and `every` of a job whose name, places and batch are known.
void readProgram(TomlReader &reader, const toml::table &table, Job &job);

/// Leaves in the job's throughput table the places that there are executables for. Without a table it stands
/// for a second a step, until the executables are asked.
void fitThroughput(TomlReader &reader, const toml::table &table, Job &job);

} // namespace tessera::scheduler
#endif
