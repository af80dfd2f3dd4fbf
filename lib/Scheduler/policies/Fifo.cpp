// First in, first out: nobody is interrupted, and jobs start in the order of their arrival. With backfill a
// job that fits starts although one before it has to wait.
#include "lib/Scheduler/policies/Rigid.h"
#include <algorithm>

namespace tessera::scheduler {

namespace {

class Fifo : public Policy {
public:
  explicit Fifo(bool backfill) : backfill(backfill) {}
  Assignment decide(const Situation &situation) override {
    std::vector<const ActiveJob *> order = situation.jobs;
    std::ranges::stable_partition(order, [](const ActiveJob *job) { return job->held > 0; });
    return giveInOrder(situation, order, !backfill);
  }

private:
  bool backfill;
};

} // namespace

std::unique_ptr<Policy> makeFifo(bool backfill) { return std::make_unique<Fifo>(backfill); }

} // namespace tessera::scheduler
