// A program that runs beside this one.
#ifndef TESSERA_LIB_LAUNCH_PROCESS_H
#define TESSERA_LIB_LAUNCH_PROCESS_H

#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace tessera::launch {

/// How a program ended.
struct ExitStatus {
  int code = 0;   ///< its own
  int signal = 0; ///< or the one that ended it
  bool good() const { return code == 0 && signal == 0; }
};

/// In a process group of its own. Unless it `outlives` this program it is killed with this object, and gets
/// SIGTERM when this program ends.
class Process {
public:
  explicit Process(bool outlives = false) : outlives(outlives) {}
  ~Process() {
    if (!outlives)
      kill();
  }
  Process(const Process &) = delete;
  Process &operator=(const Process &) = delete;

  /// `arguments` begin with the program, which is looked for in PATH. What it prints is added to the file
  /// `output`. False, with errno, where it cannot be started.
  bool start(const std::vector<std::string> &arguments, const std::string &output);
  bool alive() const { return pid > 0; }
  pid_t id() const { return pid; }
  /// To the program itself: launchers pass on what is meant for their ranks.
  void signal(int number) const;
  /// Ends it and all of its group, and waits for that.
  void kill();
  /// Its status, once, when it has ended; what is left of its group is killed.
  std::optional<ExitStatus> ended();

private:
  const bool outlives;
  pid_t pid = 0;
};

} // namespace tessera::launch
#endif
