// Jobs that are really run: an executable for each, started, stopped at the end of a step and started again
// on other places.
#ifndef TESSERA_LIB_SCHEDULER_LAUNCH_LAUNCHER_H
#define TESSERA_LIB_SCHEDULER_LAUNCH_LAUNCHER_H

#include "lib/Launch/Process.h"
#include "lib/Scheduler/Runner.h"
#include "lib/Scheduler/launch/TrainLog.h"
#include <chrono>

namespace tessera::scheduler {

struct LaunchOptions {
  /// What starts ranks, as launch::launchWords says.
  std::vector<std::string> command;
  /// A folder of each job's name below it has its checkpoints, log and what it printed.
  std::string folder;
  /// Whether ranks without work may wait beside the others, so that a job changes its size without a restart.
  bool parks = false;
  double grace = 60; ///< seconds that a job has to end its step and write a checkpoint
};

/// Launches on the places of `cluster`. Time is this machine's. A job has one process, or is told to stop by
/// SIGUSR1, which mpirun and srun pass to their ranks. One with sizes that stays on its host is asked to go
/// on on more or fewer of the ranks that it was started with instead (runtime/checkpoint/control.h). One that
/// fails goes on from its last checkpoint, and after the third failure without a step in between it is set
/// aside.
class Launcher : public Runner {
public:
  /// `jobs` and `cluster` have to outlive it. Prints what it does.
  Launcher(const std::vector<Job> &jobs, const Cluster &cluster, LaunchOptions options);
  double wait(double until) override;
  void change(int job, const std::vector<int> &places, bool restarts) override;
  Progress progress(int job) const override;
  double due(int job, double samples) const override;
  void addLosses(int job, int epochs, std::vector<double> &losses) const override;
  bool stopped() const override;
  /// Tells all jobs to stop, and waits until they have.
  void stopAll();

private:
  struct Run {
    Run(const Job &job, const std::string &folder);
    bool isDone() const { return log.samples() >= steps * batch; }
    int64_t batch, steps; // samples of what --steps counts; how many of these the whole job is
    std::string folder;
    TrainLog log;
    launch::Process process;
    std::vector<int> wanted, places; // `places` are the process's
    std::vector<int> asked;          // the places that it is to have next, without a restart
    int host = -1;                   // the one whose ranks it has, where it can change its size
    bool stopping = false, ended = false;
    double stopSince = 0, notBefore = 0, begin = kNever;
    int failures = 0;
    int64_t stepsAtFailure = -1;
    std::string error;
  };

  double now() const;
  void say(int job, const std::string &what) const;
  bool look();
  bool look(int job);
  void finish(int job, const launch::ExitStatus &status);
  void failed(int job, const std::string &why);
  void carryOut(int job);
  void start(int job);
  bool free(int job) const;
  int oneHost(const std::vector<int> &places) const;
  void resize(int job);
  bool sameRanks(const Run &run) const;
  bool reachedTarget(int job) const;
  std::vector<std::string> commandOf(int job) const;

  const std::vector<Job> &jobs;
  const Cluster &cluster;
  LaunchOptions options;
  std::vector<int> hosts; // of places
  std::vector<std::unique_ptr<Run>> runs;
  std::chrono::steady_clock::time_point begun;
  int starts = 0;
};

} // namespace tessera::scheduler
#endif
