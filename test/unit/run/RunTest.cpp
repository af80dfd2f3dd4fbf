// What `tessera run` decides: where ranks go, what a command lacks, and when it gives up.
#include "lib/Run/Supervisor.h"
#include <gtest/gtest.h>

using namespace tessera::run;
using tessera::launch::Host;

namespace {

std::string problemOf(const std::string &hosts) {
  auto read = parseHosts(hosts);
  auto *problem = std::get_if<std::string>(&read);
  return problem ? *problem : "";
}

TEST(Hosts, AreLines) {
  auto read = parseHosts("# mine\nnode1:4\n  node2 slots=2 # half\n\nnode3\n");
  ASSERT_EQ(read.index(), 0u);
  const auto &hosts = std::get<0>(read);
  ASSERT_EQ(hosts.size(), 3u);
  EXPECT_EQ(hosts[1].name, "node2");
  EXPECT_EQ(hosts[0].places * 100 + hosts[1].places * 10 + hosts[2].places, 421);
  for (const char *line : {"a:0", "a:-1", "a:x", "a slots", "a 4", "a:4 4", ":4"})
    EXPECT_NE(problemOf(std::string("b\n") + line).find("line 2: expected a host and its places"),
              std::string::npos)
        << line;
  EXPECT_EQ(problemOf("a:1\nb\na:2"), "line 3: host \"a\" is there twice");
}

TEST(Hosts, FillUpInOrder) {
  const std::vector<Host> hosts = {{"a", 2}, {"b", 4}, {"c", 1}};
  auto used = placesFor(3, hosts);
  ASSERT_EQ(used.size(), 2u);
  EXPECT_EQ(used[0].places, 2);
  EXPECT_EQ(used[1].places, 1);
  EXPECT_EQ(placesFor(7, hosts).size(), 3u);
  EXPECT_TRUE(placesFor(8, hosts).empty());
}

TEST(TrainingCommand, GetsWhatItLacks) {
  auto made = completeCommand({"./gpt", "train", "--steps=30", "--tokens", "t"}, "w");
  ASSERT_EQ(made.index(), 0u);
  const TrainingCommand &command = std::get<0>(made);
  EXPECT_EQ(command.words, (std::vector<std::string>{"./gpt", "train", "--steps=30", "--tokens", "t",
                                                     "--checkpoint", "w/checkpoints", "--every", "100",
                                                     "--keep", "3", "--log", "w/log.jsonl", "--continue"}));
  EXPECT_EQ(command.steps, 30);
  auto given = completeCommand(
      {"./gpt", "train", "--checkpoint", "c", "--every", "7", "--log=l", "--steps", "9"}, "w");
  ASSERT_EQ(given.index(), 0u);
  EXPECT_EQ(std::get<0>(given).checkpoints, "c");
  EXPECT_EQ(std::get<0>(given).log, "l");
  EXPECT_EQ(std::get<0>(given).words.size(), 10u) << "nothing but --continue, and nothing is deleted";
}

TEST(TrainingCommand, WhatIsNone) {
  for (const std::vector<std::string> &words :
       {std::vector<std::string>{}, {"./gpt"}, {"./gpt", "infer"}, {"train"}})
    EXPECT_EQ(completeCommand(words, "w").index(), 1u);
  EXPECT_EQ(completeCommand({"./gpt", "train", "--resume", "c"}, "w").index(), 1u);
}

Ended failedAt(int64_t step, const char *error, bool isItsOwn = true) {
  return {false, false, error, isItsOwn, step};
}

bool goesOn(Patience &patience, const Ended &ended) { return patience.next(ended).index() == 0; }

TEST(Patience, IsAtAnEndWithTheSameErrorAtTheSameStep) {
  Patience patience(10);
  EXPECT_TRUE(goesOn(patience, failedAt(5, "a")));
  EXPECT_TRUE(goesOn(patience, failedAt(5, "b")));
  EXPECT_TRUE(goesOn(patience, failedAt(6, "b")));
  EXPECT_TRUE(goesOn(patience, failedAt(6, "a signal", false)));
  EXPECT_TRUE(goesOn(patience, failedAt(6, "b")));
  EXPECT_EQ(std::get<std::string>(patience.next(failedAt(6, "b"))), "it failed twice at step 7: b");
}

TEST(Patience, IsAtAnEndWithoutProgress) {
  Patience patience(3);
  EXPECT_TRUE(goesOn(patience, failedAt(4, "killed", false)));
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(goesOn(patience, failedAt(i + 1, "killed", false))); // steps that were done before
  EXPECT_TRUE(goesOn(patience, failedAt(5, "killed", false)));
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(goesOn(patience, failedAt(5, "killed", false)));
  EXPECT_EQ(std::get<std::string>(patience.next(failedAt(5, "killed", false))),
            "no step was new in 4 starts: killed");
}

TEST(Patience, WaitsLongerFromTheSecondOn) {
  Patience patience(100);
  double total = 0;
  for (int i = 0; i < 12; ++i) {
    const double seconds = std::get<double>(patience.next(failedAt(0, "killed", false)));
    EXPECT_GE(seconds, i == 0 ? 0 : i == 1 ? 0.25 : 0.5);
    EXPECT_LE(seconds, 30);
    total += seconds;
  }
  EXPECT_GT(total, 60);
}

} // namespace
