// Which places jobs get once it is known how many.
#ifndef TESSERA_LIB_SCHEDULER_PLACEJOBS_H
#define TESSERA_LIB_SCHEDULER_PLACEJOBS_H

#include "lib/Scheduler/Policy.h"

namespace tessera::scheduler {

/// How many places each job gets, by its index.
using Counts = std::vector<std::pair<int, int>>;

/// Moves nobody: a job whose count stays keeps its places, one that shrinks gives up those on the hosts where
/// it has fewest, one that grows takes free ones on its own hosts first. A new job goes to the host with the
/// least room that is enough, else to the emptiest ones. The counts together must not exceed the places.
Assignment placeJobs(const Assignment &running, const Counts &counts, const std::vector<int> &hostOfPlace);

} // namespace tessera::scheduler
#endif
