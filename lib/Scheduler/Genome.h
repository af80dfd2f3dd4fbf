// The operators of ONES (Bian et al., SC'21, section 3.2) on candidates: one gene a place, the job that has
// it.
#ifndef TESSERA_LIB_SCHEDULER_GENOME_H
#define TESSERA_LIB_SCHEDULER_GENOME_H

#include "lib/Scheduler/PlaceJobs.h"
#include "lib/Scheduler/Policy.h"
#include "lib/Scheduler/Random.h"
#include <functional>
#include <map>

namespace tessera::scheduler {

/// Places by job; jobs without any are not in it.
using Allocation = std::map<int, int>;
/// The most places that a job may have, 0 for one that has ended.
using Limit = std::function<int(int job)>;

Allocation allocationOf(const Assignment &genome);

/// Takes places from jobs that have ended, and those beyond a job's limit.
Assignment refresh(const Assignment &genome, const Limit &limit);

/// Two children: one has each gene of either parent with probability 1/2, the other has what is left. A gene
/// beyond its job's limit stays idle.
std::pair<Assignment, Assignment> crossover(const Assignment &first, const Assignment &second,
                                            const Limit &limit, Random &random);

/// Each job for which `mayDrop` holds loses all of its places with this probability.
Assignment mutate(const Assignment &genome, const std::function<bool(int job)> &mayDrop, double probability,
                  Random &random);

/// Gives free places away: the fewest it can run on to each job of `fresh` that has none, in order, then to
/// each of `rest`, in order, up to its limit. What a job has below its fewest is taken first.
void fill(Allocation &allocation, int places, const std::vector<int> &fresh, const std::vector<int> &rest,
          const Limit &fewest, const Limit &limit);

/// Puts each job's places together such that the fewest places are taken from the job that runs there, among
/// all layouts that keep the order of those that run; a new job's is that of the gaps. Dynamic programming
/// over places and jobs.
Assignment reorder(const Allocation &allocation, const Assignment &running);

} // namespace tessera::scheduler
#endif
