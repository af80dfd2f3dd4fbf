// See Limits.h.
#include "lib/Scheduler/Limits.h"
#include <algorithm>

namespace tessera::scheduler {

int Limits::of(const ActiveJob &job) const {
  auto known = limits.find(job.index);
  int most = std::min(4 * job.job->places, job.most());
  return std::clamp(known == limits.end() ? 0 : known->second, job.job->fewest(), most);
}

void Limits::update(const Situation &situation) {
  for (const ActiveJob *job : situation.jobs)
    if (job->held >= of(*job) && job->epochsSinceChange() >= kEpochsToGrow)
      limits[job->index] = 2 * job->held;
  cutLargest(situation);
}

void Limits::cutLargest(const Situation &situation) {
  const ActiveJob *largest = nullptr;
  std::vector<double> times;
  for (const ActiveJob *job : situation.jobs) {
    if (job->started)
      times.push_back(job->ran);
    if (!largest || job->held > largest->held)
      largest = job;
  }
  if (!largest || 2 * largest->held < static_cast<int>(situation.running.size()))
    return;
  auto middle = times.begin() + static_cast<long>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  if (largest->ran <= *middle || *middle <= 0)
    return;
  int cut = static_cast<int>(2 * largest->held / (largest->ran / *middle + 1));
  limits[largest->index] = std::max(cut, largest->job->fewest());
}

void Limits::passOver(const ActiveJob &job) { limits[job.index] = std::max(of(job) / 2, job.job->fewest()); }

} // namespace tessera::scheduler
