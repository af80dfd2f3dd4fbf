// See on_checkpoint.h.
#include "runtime/app/on_checkpoint.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tessera::rt {

void OnCheckpoint::start(const std::string &finished) {
  if (command.empty())
    return;
  path = finished;
  const std::string script = command + " \"$@\"";
  const char *arguments[] = {"sh", "-c", script.c_str(), "sh", path.c_str(), nullptr};
  const int failed =
      ::posix_spawn(&running, "/bin/sh", nullptr, nullptr, const_cast<char **>(arguments), environ);
  if (failed == 0)
    return;
  running = -1;
  std::fprintf(stderr, "warning: --on-checkpoint cannot be started for '%s': %s\n", path.c_str(),
               std::strerror(failed));
}

void OnCheckpoint::wait() noexcept {
  if (running < 0)
    return;
  int status = 0;
  while (::waitpid(running, &status, 0) < 0 && errno == EINTR) {
  }
  running = -1;
  if (WIFSIGNALED(status))
    std::fprintf(stderr, "warning: --on-checkpoint ended by signal %d for '%s'\n", WTERMSIG(status),
                 path.c_str());
  else if (WEXITSTATUS(status) != 0)
    std::fprintf(stderr, "warning: --on-checkpoint ended with status %d for '%s'\n", WEXITSTATUS(status),
                 path.c_str());
}

} // namespace tessera::rt
