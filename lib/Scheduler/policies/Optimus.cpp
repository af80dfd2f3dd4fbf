// Optimus (Peng et al., EuroSys'18, sections 3 and 4.1): every job gets a place, then each further place goes
// where it shortens a remaining time most. Remaining epochs come from a curve fitted to the job's losses; the
// speeds, which Optimus fits too, are the table's. Decides whenever jobs come or end, and every ten minutes.
#include "lib/Scheduler/LossFit.h"
#include "lib/Scheduler/PlaceJobs.h"
#include <algorithm>
#include <cmath>
#include <queue>

namespace tessera::scheduler {

namespace {

constexpr double kInterval = 600;       // seconds
constexpr double kYoungPriority = 0.95; // gains of jobs whose curve cannot be fitted yet count for less
constexpr double kFirstGuess = 30;      // epochs, before any job has ended

class Optimus : public Policy {
public:
  explicit Optimus(const PolicyOptions &options) {
    for (const Job &job : options.history)
      learn(job.epochs());
  }
  Assignment decide(const Situation &situation) override;
  double wake(const Situation &situation) override {
    return (std::floor(situation.now / kInterval) + 1) * kInterval;
  }
  void ended(const ActiveJob &job) override { learn(job.done / job.job->dataSize); }

private:
  void learn(double epochs) { sum += epochs, ++count; }
  // Remaining samples, and the weight of what it gains.
  std::pair<double, double> remaining(const ActiveJob &job) const;

  double sum = 0;
  int count = 0;
};

std::pair<double, double> Optimus::remaining(const ActiveJob &active) const {
  const Job &job = *active.job;
  if (auto told = job.told())
    return {*told - active.done, 1};
  auto fitted = epochsToReach(job.loss->target, job.loss->first, active.losses);
  double epochs = fitted.value_or(count ? sum / count : kFirstGuess);
  // At least the epoch that it is in.
  return {std::max(epochs * job.dataSize - active.done, 0.5 * job.dataSize), fitted ? 1 : kYoungPriority};
}

Assignment Optimus::decide(const Situation &situation) {
  int free = static_cast<int>(situation.running.size());
  using Gain = std::pair<double, size_t>;
  std::priority_queue<Gain> gains;
  std::vector<std::pair<double, double>> work;
  Counts counts;
  auto offer = [&](size_t i) {
    const std::vector<double> &speed = *situation.jobs[i]->speed;
    int count = counts[i].second;
    int next = count ? nextFaster(speed, count, situation.jobs[i]->most()) : 0;
    auto [samples, weight] = work[i];
    if (next)
      gains.emplace(weight * samples * (1 / speed[count] - 1 / speed[next]) / (next - count), i);
  };
  for (const ActiveJob *job : situation.jobs) {
    int given = job->job->fewest() <= free ? job->job->fewest() : 0;
    free -= given;
    counts.emplace_back(job->index, given);
    work.push_back(remaining(*job));
    offer(counts.size() - 1);
  }
  while (free > 0 && !gains.empty()) {
    size_t i = gains.top().second;
    gains.pop();
    int &count = counts[i].second,
        next = nextFaster(*situation.jobs[i]->speed, count, situation.jobs[i]->most());
    if (next - count > free)
      continue;
    free -= next - count;
    count = next;
    offer(i);
  }
  return placeJobs(situation.running, counts, situation.cluster->hostOfPlace());
}

} // namespace

std::unique_ptr<Policy> makeOptimus(const PolicyOptions &options) {
  return std::make_unique<Optimus>(options);
}

} // namespace tessera::scheduler
