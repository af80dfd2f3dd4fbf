// Policies that give each job the places it asked for or none.
#ifndef TESSERA_LIB_SCHEDULER_POLICIES_RIGID_H
#define TESSERA_LIB_SCHEDULER_POLICIES_RIGID_H

#include "lib/Scheduler/PlaceJobs.h"

namespace tessera::scheduler {

/// The jobs of `order` that fit one after the other; with `block`, none behind the first that does not.
inline Assignment giveInOrder(const Situation &situation, const std::vector<const ActiveJob *> &order,
                              bool block) {
  int free = static_cast<int>(situation.running.size());
  Counts counts;
  for (const ActiveJob *job : order) {
    if (job->job->places > free && block)
      break;
    if (job->job->places > free)
      continue;
    free -= job->job->places;
    counts.emplace_back(job->index, job->job->places);
  }
  return placeJobs(situation.running, counts, situation.cluster->hostOfPlace());
}

} // namespace tessera::scheduler
#endif
