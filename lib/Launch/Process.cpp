// See Process.h.
#include "lib/Launch/Process.h"
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tessera::launch {

// In the child. Nothing but system calls; ends with errno in `report`, a pipe that closes when the program
// begins.
[[noreturn]] static void become(std::vector<char *> &arguments, int output, int report, bool outlives) {
  ::setpgid(0, 0);
  if (!outlives)
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (::dup2(nothing, 0) >= 0 && ::dup2(output, 1) >= 0 && ::dup2(output, 2) >= 0)
    ::execvp(arguments[0], arguments.data());
  int error = errno;
  (void)!::write(report, &error, sizeof(error));
  ::_exit(127);
}

bool Process::start(const std::vector<std::string> &arguments, const std::string &output) {
  std::vector<char *> pointers;
  for (const std::string &argument : arguments)
    pointers.push_back(const_cast<char *>(argument.c_str()));
  pointers.push_back(nullptr);
  int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0)
    return false;
  int pipes[2] = {-1, -1};
  int error = ::pipe2(pipes, O_CLOEXEC) == 0 ? 0 : errno;
  if (error == 0)
    pid = ::fork();
  if (error == 0 && pid == 0)
    become(pointers, file, pipes[1], outlives);
  if (error == 0 && pid < 0)
    error = errno;
  ::close(pipes[1]);
  if (error == 0 && ::read(pipes[0], &error, sizeof(error)) == sizeof(error))
    ::waitpid(pid, nullptr, 0);
  ::close(pipes[0]);
  ::close(file);
  if (error == 0)
    return true;
  pid = 0;
  errno = error;
  return false;
}

void Process::signal(int number) const {
  if (pid > 0)
    ::kill(pid, number);
}

void Process::kill() {
  if (pid <= 0)
    return;
  ::kill(-pid, SIGKILL);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  pid = 0;
}

std::optional<ExitStatus> Process::ended() {
  int status = 0;
  if (pid <= 0 || ::waitpid(pid, &status, WNOHANG) != pid)
    return std::nullopt;
  ::kill(-pid, SIGKILL);
  pid = 0;
  return ExitStatus{WIFEXITED(status) ? WEXITSTATUS(status) : 0, WIFSIGNALED(status) ? WTERMSIG(status) : 0};
}

} // namespace tessera::launch
