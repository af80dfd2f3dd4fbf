// Tiresias (Gu et al., NSDI'19, section 3.2): least attained service in two dimensions, places x time, in two
// queues. A job that has had more than the threshold comes after all that have not; within a queue the order
// is that of arrival. Interrupts, and never resizes.
#include "lib/Scheduler/policies/Rigid.h"
#include <algorithm>

namespace tessera::scheduler {

namespace {

// Place seconds, as in the simulator that its authors published.
constexpr double kThreshold = 3250;

bool demoted(const ActiveJob *job) { return job->service >= kThreshold * (1 - 1e-12); }

class Tiresias : public Policy {
public:
  Assignment decide(const Situation &situation) override {
    std::vector<const ActiveJob *> order = situation.jobs;
    std::ranges::stable_sort(order, {}, demoted);
    return giveInOrder(situation, order, false);
  }
  double wake(const Situation &situation) override {
    double next = kNever;
    for (const ActiveJob *job : situation.jobs)
      if (job->held && !demoted(job))
        next = std::min(next, situation.now + (kThreshold - job->service) / job->held);
    return next;
  }
};

} // namespace

std::unique_ptr<Policy> makeTiresias() { return std::make_unique<Tiresias>(); }

} // namespace tessera::scheduler
