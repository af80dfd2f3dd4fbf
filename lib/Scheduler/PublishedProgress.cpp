// See PublishedProgress.h.
#include "lib/Scheduler/PublishedProgress.h"
#include <algorithm>

namespace tessera::scheduler {

static constexpr double kFirstGuess = 30; // epochs, before any job has ended

PublishedProgress::PublishedProgress(const PolicyOptions &options) : regression(options.seed) {
  for (const Job &job : options.history) {
    std::vector<double> losses;
    for (int epoch = 1; job.loss && epoch <= static_cast<int>(job.epochs()); ++epoch)
      losses.push_back(job.loss->at(epoch / job.epochs()));
    learn(job, losses, job.samples);
  }
}

static BetaRegression::Features featuresOf(const Job &job, double epochs, double loss) {
  return {std::log(job.dataSize), job.loss->first, epochs, 1 - loss / job.loss->first};
}

void PublishedProgress::learn(const Job &job, const std::vector<double> &losses, double samples) {
  epochs += samples / job.dataSize;
  ++ends;
  for (size_t i = 0; i < losses.size(); ++i) {
    double done = static_cast<double>(i + 1), part = done * job.dataSize / samples;
    if (part < 1)
      examples.push_back({featuresOf(job, done, losses[i]), part});
  }
  regression.fit(examples);
}

double PublishedProgress::remaining(const ActiveJob &active) {
  const Job &job = *active.job;
  if (auto told = job.told())
    return *told - active.done;
  if (active.losses.empty() || examples.empty())
    return std::max((ends > 0 ? epochs / ends : kFirstGuess) * job.dataSize - active.done,
                    0.5 * job.dataSize);
  double part = regression.draw(featuresOf(job, active.epochs(), active.losses.back()));
  return active.done * (1 / std::max(part, 1e-3) - 1);
}

} // namespace tessera::scheduler
