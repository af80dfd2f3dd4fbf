// Conformance of ranks that are processes of a launcher such as torchrun: the bits of threads, and clean ends.
#include "runtime/comm/threads/threads.h"
#include "runtime/cts/comm/cases.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <sys/wait.h>
#include <unistd.h>

namespace tessera::rt {
namespace {

struct Result {
  std::string output;
  int failed = 0;
  double seconds = 0;
};

/// Runs the program as four processes that find each other; `line` sees every line as it comes.
Result runProgram(const std::string &arguments, const std::string &variables = "", const std::function<void(const std::string &)> &line = {}) {
  std::string program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "comm-cts-launcher";
  std::string port = std::to_string(20000 + ::getpid() % 10000);
  std::string command = "export WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + port + " " + variables +
                        "; for r in 0 1 2 3; do { RANK=${SAME:-$r} timeout 100 '" + program + "' " + arguments + " || echo failed; } & done 2>&1; wait";
  auto begin = std::chrono::steady_clock::now();
  Result result;
  FILE *pipe = popen(command.c_str(), "r");
  char buffer[4096];
  while (pipe && std::fgets(buffer, sizeof buffer, pipe)) {
    result.output += buffer;
    result.failed += std::string(buffer) == "failed\n";
    if (line)
      line(buffer);
  }
  if (pipe)
    pclose(pipe);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

int64_t count(const std::string &text, const std::string &word) {
  int64_t n = 0;
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; ++at)
    ++n;
  return n;
}

TEST(Tcp, GivesTheBitsOfThreads) {
  std::vector<cts::Outcome> outcomes(4);
  std::vector<cts::Case> cases = cts::casesFor(4);
  runThreads(4, [&](Transport &transport) { outcomes[size_t(transport.rank())] = cts::runCases(transport, cases); });
  Result result = runProgram("cases");
  EXPECT_EQ(result.failed, 0) << result.output;
  for (int rank = 0; rank < 4; ++rank) {
    std::string line = "rank " + std::to_string(rank) + " cases " + std::to_string(cases.size()) + " hash " +
                       std::to_string(outcomes[size_t(rank)].hash) + "\n";
    EXPECT_NE(result.output.find(line), std::string::npos) << "expected " << line << "in\n" << result.output;
  }
}

TEST(Tcp, AFailingRankEndsTheOthers) {
  Result result = runProgram("fail");
  EXPECT_EQ(result.failed, 4);
  EXPECT_LT(result.seconds, 20);
  EXPECT_EQ(count(result.output, "error: "), 1) << result.output;
  EXPECT_NE(result.output.find("error: rank 2 of 4: no more data\n"), std::string::npos) << result.output;
}

TEST(Tcp, AKilledRankEndsTheOthers) {
  Result result = runProgram("hang", "", [](const std::string &line) {
    if (int pid = 0; std::sscanf(line.c_str(), "pid %d", &pid) == 1)
      kill(pid, SIGKILL);
  });
  EXPECT_EQ(result.failed, 4);
  EXPECT_LT(result.seconds, 20);
  EXPECT_NE(result.output.find("rank 2 has ended, or the connection to it is lost"), std::string::npos) << result.output;
}

TEST(Tcp, AnAgreedErrorIsSaidOnce) {
  Result result = runProgram("agree");
  EXPECT_EQ(result.failed, 4);
  EXPECT_EQ(count(result.output, "error: "), 1) << result.output;
  EXPECT_NE(result.output.find("error: rank 1 of 4: no such file\n"), std::string::npos) << result.output;
}

TEST(Tcp, WrongVariablesAreErrors) {
  Result result = runProgram("ranks 3");
  EXPECT_NE(result.output.find("error: the program is compiled for 3 ranks and was started with 4; use WORLD_SIZE=3"), std::string::npos) << result.output;
  result = runProgram("agree", "SAME=7");
  EXPECT_NE(result.output.find("error: RANK is '7', expected a number from 0 to 3"), std::string::npos) << result.output;
}

} // namespace
} // namespace tessera::rt
