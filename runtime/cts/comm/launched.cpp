// See launched.h.
#include "runtime/cts/comm/launched.h"

#include "runtime/comm/threads/threads.h"
#include "runtime/cts/comm/cases.h"

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tessera::rt::cts {

std::string launchedProgram() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "comm-cts-launcher";
}

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

int freePort() {
  static std::atomic<int> calls;
  int ephemeral = 32768;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> ephemeral;
  constexpr int lowest = 10000;
  for (int i = 0; i < 1000; ++i) {
    // Tests run beside each other.
    int port = lowest + (int(::getpid()) * 17 + calls++) % (ephemeral - lowest);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(uint16_t(port));
    int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool isFree = ::bind(fd, reinterpret_cast<sockaddr *>(&address), sizeof address) == 0;
    ::close(fd);
    if (isFree)
      return port;
  }
  throw std::runtime_error("no port is free");
}

int64_t count(const std::string &text, const std::string &word) {
  int64_t n = 0;
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; ++at)
    ++n;
  return n;
}

double secondsAfter(const Launched &launched, const std::string &words) {
  size_t at = launched.output.find(words);
  return at == std::string::npos ? NAN : std::stod(launched.output.substr(at + words.size()));
}

void killNamed(const std::string &line) {
  if (int pid = 0; std::sscanf(line.c_str(), "pid %d", &pid) == 1)
    kill(pid, SIGKILL);
}

void expectBitsOfThreads(const Launched &launched) {
  std::vector<Outcome> outcomes(4);
  std::vector<Case> cases = casesFor(4);
  runThreads(4,
             [&](Transport &transport) { outcomes[size_t(transport.rank())] = runCases(transport, cases); });
  for (int rank = 0; rank < 4; ++rank) {
    std::string line = "rank " + std::to_string(rank) + " cases " + std::to_string(cases.size()) + " hash " +
                       std::to_string(outcomes[size_t(rank)].hash) + "\n";
    EXPECT_NE(launched.output.find(line), std::string::npos) << "expected " << line << "in\n"
                                                             << launched.output;
  }
}

} // namespace tessera::rt::cts
