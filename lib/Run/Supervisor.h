// Keeps a training going: starts it, waits for its end, and starts it again.
#ifndef TESSERA_LIB_RUN_SUPERVISOR_H
#define TESSERA_LIB_RUN_SUPERVISOR_H

#include "lib/Launch/Process.h"
#include "lib/Run/Hosts.h"
#include "lib/Run/RunState.h"
#include "lib/Run/TrainingCommand.h"

namespace tessera::run {

struct RunOptions {
  std::string folder; ///< WORK, which is there
  TrainingCommand command;
  int64_t ranks = 1;
  std::vector<launch::Size> sizes; ///< ascending; none: the executable has one alone
  std::string launcher;            ///< see launch::launchWords
  std::string hostsFile, discover; ///< where hosts are known from; both empty: this one
  int64_t restarts = 10;           ///< without a step that was not done before
  double grace = 60;               ///< seconds from the wish to stop to the end
};

/// Why a start has ended, and whether the next one has any hope.
struct Ended {
  bool done = false, toldToStop = false;
  std::string error;     ///< the run's own, or how it ended
  bool isItsOwn = false; ///< it may come again at the same step
  int64_t step = 0;      ///< the last one that was done
};

/// When to give up: the same error at the same step twice, or too many starts without progress.
class Patience {
public:
  explicit Patience(int64_t restarts) : restarts(restarts) {}
  /// Whether there is to be another start, and if so after how many seconds; else why not.
  std::variant<double, std::string> next(const Ended &ended);

private:
  const int64_t restarts;
  int64_t best = 0, without = 0;
  std::optional<std::pair<int64_t, std::string>> last;
};

/// Runs to the end. The exit status: 0, 1 after an error that it has reported, 75 when it was told to stop.
class Supervisor {
public:
  explicit Supervisor(RunOptions options);
  int run();

private:
  void adopt();
  bool findPlaces();
  int64_t ranksFor(const std::vector<launch::Host> *there) const;
  void lookForSize();
  bool start();
  Ended wait();
  Ended judge(const std::optional<launch::ExitStatus> &status) const;
  void copyOutput();
  void askToStop();
  void endStrays() const;
  void note(const std::string &text) const;
  void save(const std::string &state);
  bool sleep(double seconds);

  RunOptions options;
  std::vector<launch::Host> hosts;
  int64_t ranks = 0; ///< of the next start
  launch::Process process{true};
  RunState state;
  std::string output, marker;
  uint64_t copied = 0, startOfOutput = 0;
  bool stopping = false;
};

} // namespace tessera::run
#endif
