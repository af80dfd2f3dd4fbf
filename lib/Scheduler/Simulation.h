// Jobs that run as their throughput tables say.
#ifndef TESSERA_LIB_SCHEDULER_SIMULATION_H
#define TESSERA_LIB_SCHEDULER_SIMULATION_H

#include "lib/Scheduler/Engine.h"
#include "lib/Scheduler/Runner.h"

namespace tessera::scheduler {

class Simulation : public Runner {
public:
  /// `jobs`, `cluster` and `clock` have to outlive it; `batch` is what becomes of batches.
  Simulation(const std::vector<Job> &jobs, const Cluster &cluster, Clock &clock, Batch batch, uint64_t seed);
  double wait(double until) override;
  void change(int job, const std::vector<int> &places, bool restarts) override;
  Progress progress(int job) const override;
  double due(int job, double samples) const override;
  void addLosses(int job, int epochs, std::vector<double> &losses) const override;

private:
  // A job's run between two changes of its places, which progress is counted from.
  struct Span {
    double begin = 0, doneBefore = 0;
    double rate = 0; // useful samples/s when it works; 0 without places
  };
  double slowdown(const std::vector<int> &places) const;

  const std::vector<Job> &jobs;
  const Cluster &cluster;
  Clock &clock;
  uint64_t seed;
  std::vector<int> hosts, sizes; // of places; of hosts, the largest first
  std::vector<std::vector<double>> speed;
  std::vector<Span> spans;
  std::vector<int> running; // those that have places
  double now = 0;
};

} // namespace tessera::scheduler
#endif
