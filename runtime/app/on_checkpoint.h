// The user's command for finished checkpoints.
#pragma once

#include <string>
#include <sys/types.h>

namespace tessera::rt {

/// Starts `--on-checkpoint COMMAND` beside the training, one at a time.
class OnCheckpoint {
public:
  /// `command`: of the shell, run with a path behind it; empty: none.
  explicit OnCheckpoint(std::string command) : command(std::move(command)) {}
  ~OnCheckpoint() { wait(); }
  OnCheckpoint(const OnCheckpoint &) = delete;
  OnCheckpoint &operator=(const OnCheckpoint &) = delete;

  /// Starts it with the path of a checkpoint. Not while one is running: wait() for that.
  void start(const std::string &path);
  /// Returns when it has ended; warns where it has failed.
  void wait() noexcept;

private:
  const std::string command;
  std::string path;
  pid_t running = -1;
};

} // namespace tessera::rt
