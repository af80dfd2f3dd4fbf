// What is known of a run in its folder, by whoever looks: this and other terminals, and the next `tessera
// run`.
#ifndef TESSERA_LIB_RUN_RUNSTATE_H
#define TESSERA_LIB_RUN_RUNSTATE_H

#include "lib/Launch/Executable.h"

#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace tessera::run {

/// A process of this host. Numbers of processes come again, so that it is known by when it was started, too.
struct ProcessId {
  pid_t number = 0;
  int64_t started = 0;
  std::string host;

  static ProcessId of(pid_t number);
  /// Whether it is still there, and not of another host.
  bool alive() const;
};

struct RunState {
  /// `running`, `waiting` (for places, or to start again), `done`, `stopped` or `failed`.
  std::string state;
  std::string error; ///< of the last start that failed
  std::vector<std::string> command;
  std::string log, checkpoints;
  std::string shared; ///< the folder in memory for what ranks of this host share, while they run
  int64_t steps = 0, starts = 0;
  std::vector<launch::Size> sizes; ///< that the executable can run on; none: one alone
  int64_t size = 0;                ///< asked for; 0: as many as there are ranks for
  ProcessId supervisor, child;
};

/// Where it lies in a run's folder.
std::string statePath(const std::string &folder);
/// None where nothing ran there, or where it is damaged.
std::optional<RunState> readState(const std::string &folder);
/// The file is there as it was or as it is to be, whatever happens. Throws rt::Error.
void writeState(const std::string &folder, const RunState &state);

/// The last step of a log, and its loss.
struct LastStep {
  int64_t step = 0;
  std::optional<double> loss;
};
LastStep lastStepOf(const std::string &log);

/// The processes of this host that have `marker` among their environment's variables.
std::vector<pid_t> markedProcesses(const std::string &marker);
/// What the processes of a run in a folder have.
std::string markerOf(const std::string &folder);

} // namespace tessera::run
#endif
