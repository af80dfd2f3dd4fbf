// See launched.h.
#include "runtime/cts/comm/launched.h"

#include "runtime/comm/threads/threads.h"
#include "runtime/cts/comm/cases.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <sys/wait.h>

namespace tessera::rt::cts {

std::string launchedProgram() { return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "comm-cts-launcher"; }

Launched run(const std::string &command, const std::function<void(const std::string &)> &line) {
  auto begin = std::chrono::steady_clock::now();
  Launched result;
  FILE *pipe = popen(command.c_str(), "r");
  char buffer[4096];
  while (pipe && std::fgets(buffer, sizeof buffer, pipe)) {
    result.output += buffer;
    if (line)
      line(buffer);
  }
  int status = pipe ? pclose(pipe) : -1;
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

void killNamed(const std::string &line) {
  if (int pid = 0; std::sscanf(line.c_str(), "pid %d", &pid) == 1)
    kill(pid, SIGKILL);
}

void expectBitsOfThreads(const Launched &launched) {
  std::vector<Outcome> outcomes(4);
  std::vector<Case> cases = casesFor(4);
  runThreads(4, [&](Transport &transport) { outcomes[size_t(transport.rank())] = runCases(transport, cases); });
  for (int rank = 0; rank < 4; ++rank) {
    std::string line = "rank " + std::to_string(rank) + " cases " + std::to_string(cases.size()) + " hash " +
                       std::to_string(outcomes[size_t(rank)].hash) + "\n";
    EXPECT_NE(launched.output.find(line), std::string::npos) << "expected " << line << "in\n" << launched.output;
  }
}

} // namespace tessera::rt::cts
