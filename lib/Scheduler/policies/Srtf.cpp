// Shortest remaining time first, which may interrupt. It looks at how long jobs will really take, which no
// scheduler knows: a bound for those that give each job the places it asked for.
#include "lib/Scheduler/policies/Rigid.h"
#include <algorithm>

namespace tessera::scheduler {

namespace {

double remaining(const ActiveJob *job) {
  return (job->job->samples - job->done) / (*job->speed)[job->job->places];
}

class Srtf : public Policy {
public:
  Assignment decide(const Situation &situation) override {
    std::vector<const ActiveJob *> order = situation.jobs;
    std::ranges::stable_sort(order, {}, remaining);
    return giveInOrder(situation, order, false);
  }
};

} // namespace

std::unique_ptr<Policy> makeSrtf() { return std::make_unique<Srtf>(); }

} // namespace tessera::scheduler
