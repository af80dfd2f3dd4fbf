// Conformance of ranks that are processes of mpirun: the same results as threads, bit by bit, and clean ends.
#include "runtime/comm/threads/threads.h"
#include "runtime/cts/comm/cases.h"

#include <gtest/gtest.h>

#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <sys/wait.h>

namespace tessera::rt {
namespace {

struct Result {
  std::string output;
  int status = -1;
  double seconds = 0;
};

/// Runs the MPI program with four ranks and returns its output; `line` sees every line as it comes.
Result runProgram(const std::string &arguments, const std::function<void(const std::string &)> &line = {}) {
  std::string program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "comm-cts-launcher";
  std::string command =
      "timeout 120 mpirun --allow-run-as-root --oversubscribe -n 4 '" + program + "' " + arguments + " 2>&1";
  auto begin = std::chrono::steady_clock::now();
  Result result;
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

class Mpi : public testing::Test {
protected:
  void SetUp() override {
    if (std::system("command -v mpirun >/dev/null 2>&1") != 0)
      GTEST_SKIP() << "mpirun is not installed";
  }
};

TEST_F(Mpi, GivesTheBitsOfThreads) {
  std::vector<cts::Outcome> outcomes(4);
  std::vector<cts::Case> cases = cts::casesFor(4);
  runThreads(4, [&](Transport &transport) { outcomes[transport.rank()] = cts::runCases(transport, cases); });
  Result result = runProgram("cases");
  EXPECT_EQ(result.status, 0) << result.output;
  for (int rank = 0; rank < 4; ++rank) {
    std::string line = "rank " + std::to_string(rank) + " cases " + std::to_string(cases.size()) + " hash " +
                       std::to_string(outcomes[rank].hash) + "\n";
    EXPECT_NE(result.output.find(line), std::string::npos) << "expected " << line << "in\n" << result.output;
  }
}

TEST_F(Mpi, CutsLongMessages) {
  Result result = runProgram("cases 1000");
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_NE(result.output.find("rank 3 cases"), std::string::npos) << result.output;
}

TEST_F(Mpi, AFailingRankEndsTheOthers) {
  Result result = runProgram("fail");
  EXPECT_NE(result.status, 0);
  EXPECT_LT(result.seconds, 20);
  EXPECT_NE(result.output.find("error: rank 2 of 4: no more data\n"), std::string::npos) << result.output;
}

TEST_F(Mpi, AKilledRankEndsTheOthers) {
  Result result = runProgram("hang", [](const std::string &line) {
    if (int pid = 0; std::sscanf(line.c_str(), "pid %d", &pid) == 1)
      kill(pid, SIGKILL);
  });
  EXPECT_NE(result.status, 0);
  EXPECT_LT(result.seconds, 20);
  EXPECT_NE(result.output.find("rank 2"), std::string::npos) << result.output;
}

TEST_F(Mpi, AnAgreedErrorIsSaidOnce) {
  Result result = runProgram("agree");
  EXPECT_NE(result.status, 0);
  size_t first = result.output.find("error: rank 1 of 4: no such file\n");
  ASSERT_NE(first, std::string::npos) << result.output;
  EXPECT_EQ(result.output.find("no such file", first + 30), std::string::npos) << result.output;
}

TEST_F(Mpi, AWrongNumberOfRanksIsAnError) {
  Result result = runProgram("ranks 3");
  EXPECT_NE(result.status, 0);
  EXPECT_NE(result.output.find(
                "error: the program is compiled for 3 ranks and was started with 4; use mpirun -n 3"),
            std::string::npos)
      << result.output;
}

} // namespace
} // namespace tessera::rt
