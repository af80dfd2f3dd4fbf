// Programs that run beside this one, and the words that start ranks.
#include "lib/Launch/LaunchWords.h"
#include "lib/Launch/Process.h"
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <gtest/gtest.h>
#include <thread>
#include <unistd.h>

using namespace tessera::launch;

namespace {

std::string problemOf(llvm::StringRef launcher, const std::vector<Host> &hosts) {
  auto words = launchWords(launcher, hosts);
  auto *problem = std::get_if<std::string>(&words);
  return problem ? *problem : "";
}

std::vector<std::string> wordsOf(llvm::StringRef launcher, const std::vector<Host> &hosts, int64_t ranks) {
  auto words = launchWords(launcher, hosts);
  EXPECT_EQ(words.index(), 0u);
  return fillIn(std::get<0>(words), hosts, ranks, 21007);
}

ExitStatus endOf(Process &process) {
  for (;;) {
    if (std::optional<ExitStatus> status = process.ended())
      return *status;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

TEST(Process, WritesAndEnds) {
  const std::string output = testing::TempDir() + "process-" + std::to_string(::getpid());
  Process process;
  ASSERT_TRUE(process.start({"sh", "-c", "echo out; echo err >&2; exit 3"}, output));
  EXPECT_EQ(endOf(process).code, 3);
  EXPECT_EQ(std::filesystem::file_size(output), 8u);
  EXPECT_FALSE(process.start({output + ".none"}, output));
  EXPECT_EQ(errno, ENOENT);
  ASSERT_TRUE(process.start({"sleep", "100"}, output));
  process.signal(SIGUSR1);
  EXPECT_EQ(endOf(process).signal, SIGUSR1);
  std::filesystem::remove(output);
}

TEST(Process, EndsWithItsObjectUnlessItOutlives) {
  pid_t killed = 0, left = 0;
  {
    Process one, other(true);
    ASSERT_TRUE(one.start({"sleep", "100"}, "/dev/null"));
    ASSERT_TRUE(other.start({"sleep", "100"}, "/dev/null"));
    killed = one.id();
    left = other.id();
  }
  EXPECT_NE(::kill(killed, 0), 0);
  EXPECT_EQ(::kill(left, SIGKILL), 0);
}

TEST(LaunchWords, AreFilledIn) {
  const std::vector<Host> two = {{"a", 3}, {"b", 1}};
  EXPECT_TRUE(wordsOf("threads", {}, 4).empty());
  EXPECT_EQ(wordsOf("sh {ranks} {hosts} {slots} {host}:{port}", two, 4),
            (std::vector<std::string>{"sh", "4", "a,b", "a:3,b:1", "a:21007"}));
  EXPECT_EQ(wordsOf("sh {ranks} {host}", {}, 2), (std::vector<std::string>{"sh", "2", "localhost"}));
}

TEST(LaunchWords, WhatCannotStartRanks) {
  const std::vector<Host> two = {{"a", 3}, {"b", 1}};
  EXPECT_NE(problemOf("threads", two).find("threads are all on this host"), std::string::npos);
  EXPECT_NE(problemOf("torchrun", two).find("torchrun starts ranks here alone"), std::string::npos);
  EXPECT_NE(problemOf("flood", {}).find("expected threads, mpirun, srun, torchrun or a command"),
            std::string::npos);
  EXPECT_EQ(problemOf("no-such-program {ranks}", {}), "--launcher: there is no program no-such-program");
}

TEST(LaunchWords, SlurmTellsItsTasks) {
  EXPECT_EQ(slurmTasks("4"), 4);
  EXPECT_EQ(slurmTasks("4(x2),1"), 9);
  for (const char *text : {"", "x", "4(x", "4(x2", "0", "4(x0)", "4,", "-1", "99999999999"})
    EXPECT_FALSE(slurmTasks(text)) << text;
}

} // namespace
