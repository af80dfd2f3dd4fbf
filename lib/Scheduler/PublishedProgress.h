// What jobs have left, as ONES publishes it.
#ifndef TESSERA_LIB_SCHEDULER_PUBLISHEDPROGRESS_H
#define TESSERA_LIB_SCHEDULER_PUBLISHEDPROGRESS_H

#include "lib/Scheduler/BetaRegression.h"
#include "lib/Scheduler/Policy.h"

namespace tessera::scheduler {

/// Draws what part of a job is done, from a regression on jobs that ended. The authors' program fits on the
/// logarithm of a data set's size and asks with the size; here both have the logarithm. It gives a job of
/// which nothing is known a score of 0; here that is the mean of all jobs that ended.
class PublishedProgress {
public:
  explicit PublishedProgress(const PolicyOptions &options);
  void ended(const ActiveJob &job) { learn(*job.job, job.losses, job.done); }
  /// Samples that the job has left, a new draw at each call.
  double remaining(const ActiveJob &job);

private:
  void learn(const Job &job, const std::vector<double> &losses, double samples);

  BetaRegression regression;
  std::vector<BetaRegression::Example> examples;
  double epochs = 0, ends = 0;
};

} // namespace tessera::scheduler
#endif
