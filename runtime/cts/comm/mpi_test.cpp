// Conformance of ranks that are processes of mpirun: the same results as threads, bit by bit, and clean ends.
#include "runtime/cts/comm/launched.h"

#include <gtest/gtest.h>

namespace tessera::rt {
namespace {

using cts::Launched;

/// Ranks under mpirun. That of Open MPI 4.1 can stand still in PMIx_server_finalize when its ranks have
/// ended, and takes no notice of SIGTERM there.
Launched runProgram(const std::string &arguments, const std::function<void(const std::string &)> &line = {},
                    int ranks = 4) {
  return cts::run("timeout -k 5 120 mpirun --allow-run-as-root --oversubscribe -n " + std::to_string(ranks) +
                      " '" + cts::launchedProgram() + "' " + arguments + " 2>&1",
                  line);
}

class Mpi : public testing::Test {
protected:
  void SetUp() override {
    if (cts::run("command -v mpirun").status != 0)
      GTEST_SKIP() << "mpirun is not installed";
  }
};

TEST_F(Mpi, GivesTheBitsOfThreads) {
  Launched result = runProgram("cases");
  EXPECT_EQ(result.status, 0) << result.output;
  cts::expectBitsOfThreads(result);
}

TEST_F(Mpi, CutsLongMessages) {
  Launched result = runProgram("cases 1000");
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_NE(result.output.find("rank 3 cases"), std::string::npos) << result.output;
}

TEST_F(Mpi, AFailingRankEndsTheOthers) {
  Launched result = runProgram("fail");
  EXPECT_NE(result.status, 0);
  EXPECT_LT(result.seconds, 20);
  EXPECT_NE(result.output.find("error: rank 2 of 4: no more data\n"), std::string::npos) << result.output;
}

TEST_F(Mpi, AKilledRankEndsTheOthers) {
  Launched result = runProgram("hang", cts::killNamed);
  EXPECT_NE(result.status, 0);
  EXPECT_LT(result.seconds, 20);
  EXPECT_NE(result.output.find("rank 2"), std::string::npos) << result.output;
}

TEST_F(Mpi, AMessageMovesWhileRanksCompute) {
  for (auto [mode, words] : {std::pair("send", "received after "), {"ahead", "sent after "}}) {
    Launched result =
        cts::run("timeout -k 5 60 mpirun --allow-run-as-root --oversubscribe --mca btl tcp,self -n 2 '" +
                 cts::launchedProgram() + "' " + mode + " 2 2>&1");
    EXPECT_EQ(result.status, 0) << result.output;
    EXPECT_LT(cts::secondsAfter(result, words), 1) << result.output;
  }
}

TEST_F(Mpi, AThreadThatCannotStartIsAnError) {
  Launched result = runProgram("threads 1");
  EXPECT_EQ(result.status, 1) << result.output;
  EXPECT_NE(
      result.output.find("of 4: cannot start the communication thread: Resource temporarily unavailable"),
      std::string::npos)
      << result.output;
}

TEST_F(Mpi, AnAgreedErrorIsSaidOnce) {
  Launched result = runProgram("agree");
  EXPECT_NE(result.status, 0);
  size_t first = result.output.find("error: rank 1 of 4: no such file\n");
  ASSERT_NE(first, std::string::npos) << result.output;
  EXPECT_EQ(result.output.find("no such file", first + 30), std::string::npos) << result.output;
}

/// One that is too long MPI itself refuses.
TEST_F(Mpi, AMessageOfAnotherLengthIsAnError) {
  for (auto [bytes, said] :
       {std::pair("4", "rank 0 expects 8 bytes, rank 1 sends 4: they execute different programs\n"),
        {"16", "MPI failed to receive: MPI_ERR_TRUNCATE: "}}) {
    Launched result = runProgram(std::string("lengths ") + bytes, {}, 2);
    EXPECT_NE(result.status, 0);
    EXPECT_NE(result.output.find(std::string("error: rank 0 of 2: ") + said), std::string::npos)
        << result.output;
  }
}

TEST_F(Mpi, CommunicationThatWasGivenUpIsAnError) {
  Launched result = runProgram("cancel", {}, 2);
  EXPECT_NE(result.status, 0);
  EXPECT_NE(result.output.find("error: rank 0 of 2: communication of rank 0 was given up\n"),
            std::string::npos)
      << result.output;
}

TEST_F(Mpi, AWrongNumberOfRanksIsAnError) {
  Launched result = runProgram("ranks 3");
  EXPECT_NE(result.status, 0);
  EXPECT_NE(result.output.find(
                "error: the program is compiled for 3 ranks and was started with 4; use mpirun -n 3"),
            std::string::npos)
      << result.output;
}

} // namespace
} // namespace tessera::rt
