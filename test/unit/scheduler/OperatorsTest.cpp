// The operators of ONES, the fast-forward and the places that jobs get.
#include "lib/Scheduler/FastForward.h"
#include "lib/Scheduler/Genome.h"
#include <gtest/gtest.h>

using namespace tessera::scheduler;

namespace {

constexpr int X = kIdle;
int two(int) { return 2; }
int one(int) { return 1; }

TEST(Operators, RefreshDropsEndedJobsAndWhatIsBeyondTheLimit) {
  auto limit = [](int job) { return job == 1 ? 0 : job; };
  EXPECT_EQ(refresh({1, 2, 2, 2, 3, X}, limit), (Assignment{X, 2, 2, X, 3, X}));
}

TEST(Operators, CrossoverTakesEachGeneOnce) {
  Random random(1);
  auto any = [](int) { return 100; };
  Assignment first(64, 1), second(64, 2);
  auto [left, right] = crossover(first, second, any, random);
  int fromFirst = 0;
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(left[i] + right[i], 3);
    fromFirst += left[i] == 1;
  }
  EXPECT_TRUE(fromFirst > 16 && fromFirst < 48) << fromFirst;
  auto [small, other] = crossover(first, second, two, random);
  EXPECT_EQ(allocationOf(small), (Allocation{{1, 2}, {2, 2}}));
}

TEST(Operators, MutationDropsWholeJobs) {
  Random random(2);
  Assignment genome;
  for (int i = 0; i < 1000; ++i)
    genome.insert(genome.end(), 2, i);
  Assignment mutant = mutate(genome, [](int job) { return job % 2 == 0; }, 0.3, random);
  Allocation left = allocationOf(mutant);
  for (auto [job, count] : left)
    EXPECT_EQ(count, 2);
  int dropped = 1000 - static_cast<int>(left.size());
  EXPECT_TRUE(dropped > 110 && dropped < 190) << dropped; // 150 expected
  for (int job = 1; job < 1000; job += 2)
    EXPECT_TRUE(left.contains(job));
}

TEST(Operators, FillGivesNewJobsOnePlaceAndOthersUpToTheirLimit) {
  Allocation allocation = {{1, 1}};
  fill(allocation, 8, {7, 8}, {2, 1}, one, [](int job) { return job == 2 ? 3 : 4; });
  EXPECT_EQ(allocation, (Allocation{{1, 3}, {2, 3}, {7, 1}, {8, 1}}));
}

TEST(Operators, FillTakesBackWhatIsTooFewToRunOn) {
  Allocation allocation = {{1, 1}, {2, 2}};
  fill(allocation, 4, {}, {1}, two, [](int) { return 4; });
  EXPECT_EQ(allocation, (Allocation{{1, 2}, {2, 2}}));
}

TEST(Operators, ReorderLeavesWhatFits) {
  Assignment running = {1, 1, X, 2, 2, 3};
  EXPECT_EQ(reorder(allocationOf(running), running), running);
}

TEST(Operators, ReorderPutsJobsTogetherWithFewChanges) {
  // 2 grows into the gap, 3 is new and takes what 1 gives up.
  EXPECT_EQ(reorder({{1, 1}, {2, 3}, {3, 1}}, {1, 1, X, 2, 2}), (Assignment{1, 3, 2, 2, 2}));
  // 2 grows to the right, where nobody is.
  EXPECT_EQ(reorder({{1, 1}, {2, 2}}, {X, 1, 2, X}), (Assignment{X, 1, 2, 2}));
  // A job that is scattered comes together where most of it is.
  EXPECT_EQ(reorder({{1, 3}}, {1, X, X, 1, 1}), (Assignment{X, X, 1, 1, 1}));
}

TEST(Operators, ReorderKeepsCountsAndTogetherness) {
  Random random(3);
  for (int round = 0; round < 200; ++round) {
    Assignment running;
    while (running.size() < 24)
      running.insert(running.end(), 1 + random.below(4), random.below(9) - 1);
    running.resize(24);
    Allocation wanted;
    for (int left = 24, job = 0; job < 12; ++job)
      if (int count = random.below(5); count > 0 && count <= left)
        wanted[job] = count, left -= count;
    Assignment result = reorder(wanted, running);
    EXPECT_EQ(allocationOf(result), wanted);
    int blocks = 0;
    for (size_t i = 0; i < result.size(); ++i)
      blocks += result[i] != kIdle && (i == 0 || result[i - 1] != result[i]);
    EXPECT_EQ(blocks, static_cast<int>(wanted.size()));
  }
}

TEST(PlaceJobs, MovesNobodyWhoseCountStays) {
  std::vector<int> hosts = {0, 0, 0, 0, 1, 1, 1, 1};
  Assignment running = {1, 1, 2, X, 2, 3, X, X};
  // 2 gives up its place on the host where it has fewest; 4 goes where three are free.
  EXPECT_EQ(placeJobs(running, {{1, 2}, {2, 2}, {3, 1}}, hosts), running);
  EXPECT_EQ(placeJobs(running, {{1, 2}, {3, 1}, {4, 3}}, hosts), (Assignment{1, 1, X, X, 4, 3, 4, 4}));
  // 3 grows on its own host, although the other has room too.
  EXPECT_EQ(placeJobs({X, X, X, X, 3, X, X, X}, {{3, 3}}, hosts), (Assignment{X, X, X, X, 3, 3, 3, X}));
}

TEST(FastForward, GivesPlacesOnAsJobsEnd) {
  std::vector<double> linear = {0, 1, 2, 3, 4};
  std::vector<Ahead> jobs = {
      {8, &linear, 1, 4, 2, 0, {0, 0}}, {4, &linear, 1, 4, 2, 0, {0, 0}}, {20, &linear, 1, 4, 2, 0, {0, 0}}};
  FastForward forward(jobs, 4);
  // Job 1 ends at 2, the last one starts; at 4 it has 16 left and all four places.
  EXPECT_DOUBLE_EQ(forward.run({2, 2, 0}), 4 + 2 + 8);
  EXPECT_EQ(forward.ends(), (std::vector<double>{4, 2, 8}));
  EXPECT_EQ(forward.run({0, 0, 0}), kNever);
}

TEST(FastForward, CountsTheStartsAndResizesOfEachJob) {
  std::vector<double> linear = {0, 1, 2, 3, 4};
  std::vector<Ahead> jobs = {{8, &linear, 1, 4, 2, 4, {1, 99}},
                             {4, &linear, 1, 4, 2, 2, {99, 99}},
                             {6, &linear, 1, 2, 2, 0, {99, 10}}};
  FastForward forward(jobs, 6);
  forward.run({2, 2, 2});
  EXPECT_EQ(forward.ends(), (std::vector<double>{5 - 0.5 * 1, 2, 13}));
}

} // namespace
