// Dominant resource fairness (Ghodsi et al., NSDI'11, algorithm 1): whoever has least gets the next place, by
// progressive filling, up to what
// it asked for. Places are the only resource here, so its share of them is a
// job's dominant share.
#include "lib/Scheduler/PlaceJobs.h"
#include <queue>

namespace tessera::scheduler {

namespace {

class Drf : public Policy {
public:
  Assignment decide(const Situation &situation) override {
    int free = static_cast<int>(situation.running.size());
    // Places, and the order of arrival; those with less come first.
    using Entry = std::pair<int, size_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> poorest;
    for (size_t i = 0; i < situation.jobs.size(); ++i)
      poorest.emplace(0, i);
    Counts counts;
    for (const ActiveJob *job : situation.jobs)
      counts.emplace_back(job->index, 0);
    while (free > 0 && !poorest.empty()) {
      auto [has, i] = poorest.top();
      poorest.pop();
      int more = has ? 1 : situation.jobs[i]->job->fewest();
      if (more > free || has + more > situation.jobs[i]->job->places)
        continue;
      free -= more;
      counts[i].second = has + more;
      poorest.emplace(has + more, i);
    }
    return placeJobs(situation.running, counts, situation.cluster->hostOfPlace());
  }
};

} // namespace

std::unique_ptr<Policy> makeDrf() { return std::make_unique<Drf>(); }

} // namespace tessera::scheduler
