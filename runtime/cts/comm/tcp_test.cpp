// Conformance of ranks that are processes of a launcher such as torchrun: the bits of threads, and clean
// ends.
#include "runtime/cts/comm/launched.h"

#include <gtest/gtest.h>

namespace tessera::rt {
namespace {

using cts::count;
using cts::Launched;

/// Four processes that find each other. One that fails says so in a line of its own.
Launched runProgram(const std::string &arguments, const std::string &variables = "",
                    const std::function<void(const std::string &)> &line = {}) {
  std::string port = std::to_string(cts::freePort());
  return cts::run("export WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + port + " " + variables +
                      "; for r in $(seq 0 $((WORLD_SIZE - 1))); do { RANK=${SAME:-$r} timeout 100 '" +
                      cts::launchedProgram() + "' " + arguments + " || echo failed; } & done 2>&1; wait",
                  line);
}

int64_t failed(const Launched &launched) { return count("\n" + launched.output, "\nfailed\n"); }

TEST(Tcp, GivesTheBitsOfThreads) {
  Launched result = runProgram("cases");
  EXPECT_EQ(failed(result), 0) << result.output;
  cts::expectBitsOfThreads(result);
}

TEST(Tcp, AFailingRankEndsTheOthers) {
  Launched result = runProgram("fail");
  EXPECT_EQ(failed(result), 4);
  EXPECT_LT(result.seconds, 20);
  EXPECT_EQ(count(result.output, "error: "), 1) << result.output;
  EXPECT_NE(result.output.find("error: rank 2 of 4: no more data\n"), std::string::npos) << result.output;
}

TEST(Tcp, AKilledRankEndsTheOthers) {
  Launched result = runProgram("hang", "", cts::killNamed);
  EXPECT_EQ(failed(result), 4);
  EXPECT_LT(result.seconds, 20);
  EXPECT_EQ(count(result.output, "error: "), 1) << result.output;
  EXPECT_NE(result.output.find("rank 2 has ended, or the connection to it is lost"), std::string::npos)
      << result.output;
}

TEST(Tcp, AMessageMovesWhileRanksCompute) {
  for (auto [mode, words] : {std::pair("send", "received after "), {"ahead", "sent after "}}) {
    Launched result = runProgram(std::string(mode) + " 2", "WORLD_SIZE=2");
    EXPECT_EQ(failed(result), 0) << result.output;
    EXPECT_LT(cts::secondsAfter(result, words), 1) << result.output;
  }
}

TEST(Tcp, AThreadThatCannotStartIsAnError) {
  Launched result = runProgram("threads 1");
  EXPECT_EQ(failed(result), 4);
  EXPECT_EQ(count(result.output, "terminate"), 0) << result.output;
  EXPECT_GE(
      count(result.output,
            "of 4: cannot start the communication thread: Resource temporarily unavailable; raise the limit"),
      1)
      << result.output;
}

TEST(Tcp, AnAgreedErrorIsSaidOnce) {
  Launched result = runProgram("agree");
  EXPECT_EQ(failed(result), 4);
  EXPECT_EQ(count(result.output, "error: "), 1) << result.output;
  EXPECT_NE(result.output.find("error: rank 1 of 4: no such file\n"), std::string::npos) << result.output;
}

TEST(Tcp, AMessageOfAnotherLengthIsAnError) {
  Launched result = runProgram("lengths 4", "WORLD_SIZE=2");
  EXPECT_EQ(failed(result), 2);
  EXPECT_EQ(count(result.output, "error: "), 1) << result.output;
  EXPECT_NE(result.output.find("error: rank 0 of 2: rank 0 expects 8 bytes, rank 1 sends 4: they execute "
                               "different programs\n"),
            std::string::npos)
      << result.output;
}

TEST(Tcp, CommunicationThatWasGivenUpIsAnError) {
  Launched result = runProgram("cancel", "WORLD_SIZE=2");
  EXPECT_EQ(failed(result), 2);
  EXPECT_NE(result.output.find("error: rank 0 of 2: communication of rank 0 was given up\n"),
            std::string::npos)
      << result.output;
}

TEST(Tcp, WhoWaitsForAFailingRankIsToldSo) {
  Launched result = runProgram("told", "WORLD_SIZE=2");
  EXPECT_EQ(failed(result), 2);
  EXPECT_EQ(count(result.output, "error: "), 1) << result.output;
  EXPECT_NE(result.output.find("rank 0 is told: rank 1 has failed\n"), std::string::npos) << result.output;
}

TEST(Tcp, WrongVariablesAreErrors) {
  Launched result = runProgram("ranks 3");
  EXPECT_NE(result.output.find(
                "error: the program is compiled for 3 ranks and was started with 4; use WORLD_SIZE=3"),
            std::string::npos)
      << result.output;
  result = runProgram("agree", "SAME=7");
  EXPECT_NE(result.output.find("error: RANK is '7', expected a number from 0 to 3"), std::string::npos)
      << result.output;
}

} // namespace
} // namespace tessera::rt
