// Policies against schedules worked out by hand.
#include "lib/Scheduler/Trace.h"
#include "test/unit/scheduler/Jobs.h"
#include <gmock/gmock.h>

using namespace tessera::scheduler;
using testing::DoubleNear;
using testing::Pointwise;

namespace {

// B needs the whole cluster, which A has most of; C would fit beside A.
const std::vector<Job> kThree = {rigidJob("a", 0, 3, 10), rigidJob("b", 1, 4, 5), rigidJob("c", 2, 1, 4)};

void expectEnds(const Result &result, const std::vector<double> &expected) {
  EXPECT_THAT(ends(result), Pointwise(testing::DoubleNear(1e-9), expected));
}

TEST(Policies, FifoKeepsTheOrder) { expectEnds(runPolicy("fifo", kThree, freeCluster(4)), {10, 15, 19}); }

TEST(Policies, BackfillStartsWhatFits) {
  expectEnds(runPolicy("fifo-backfill", kThree, freeCluster(4)), {10, 15, 6});
}

TEST(Policies, ShortestRemainingTimeInterrupts) {
  // B interrupts A at 1; at 6 A and C run beside each other.
  expectEnds(runPolicy("srtf", kThree, freeCluster(4)), {15, 6, 10});
}

TEST(Policies, FairnessGivesEveryoneTheSame) {
  // Two places each while both run: A has done 8 when B comes at 2, and 16 when B ends at 6.
  expectEnds(runPolicy("drf", {elasticJob("a", 0, 4, 40), elasticJob("b", 2, 4, 8)}, freeCluster(4)),
             {12, 6});
}

TEST(Policies, FairnessGivesNobodyMoreThanItAsksFor) {
  expectEnds(runPolicy("drf", {elasticJob("a", 0, 1, 10), elasticJob("b", 0, 4, 30)}, freeCluster(4)),
             {10, 10});
}

TEST(Policies, TiresiasDemotesWhoHasHadMuch) {
  // A has had 3250 place seconds at 812.5; B runs then, and A goes on behind it.
  expectEnds(runPolicy("tiresias", {rigidJob("a", 0, 4, 2000), rigidJob("b", 100, 4, 500)}, freeCluster(4)),
             {2500, 1312.5});
}

TEST(Policies, OptimusGivesPlacesWhereTheyGainMost) {
  // A third place gains a job of 100 samples 16.7 seconds, a second one a job of 10 samples 5.
  Result result =
      runPolicy("optimus", {elasticJob("a", 0, 4, 100), elasticJob("b", 0, 4, 10)}, freeCluster(4));
  ASSERT_GE(result.changes.size(), 2u);
  EXPECT_EQ(result.changes[0].places.size(), 3u);
  EXPECT_EQ(result.changes[1].places.size(), 1u);
}

TEST(Policies, OnesRunsShortJobsFirstWhereAllScaleAlike) {
  // Nothing is gained by sharing, so the shortest has all places until it ends.
  Result result =
      runPolicy("ones", {elasticJob("a", 0, 4, 40), elasticJob("b", 0, 4, 8), elasticJob("c", 0, 4, 16)},
                freeCluster(4));
  expectEnds(result, {16, 2, 6});
}

TEST(Policies, OnesPublishedGrowsFromOnePlace) {
  Job job = elasticJob("a", 0, 4, 1000);
  job.dataSize = 10;
  Result result = runPolicy("ones-published", {job}, freeCluster(8));
  std::vector<size_t> counts;
  for (const Change &change : result.changes)
    counts.push_back(change.places.size());
  // Two epochs at one place, two at two.
  EXPECT_EQ(counts, (std::vector<size_t>{1, 2, 4, 0}));
  EXPECT_DOUBLE_EQ(result.changes[1].time, 20);
  EXPECT_DOUBLE_EQ(result.changes[2].time, 30);
}

TEST(Policies, OnesBeatsTheOthersOnTheTrace) {
  TraceOptions trace;
  auto mean = [&](const char *policy) {
    double sum = 0;
    for (trace.seed = 1; trace.seed <= 2; ++trace.seed) {
      std::vector<Job> jobs = onesTrace(trace);
      PolicyOptions options;
      options.history = onesHistory(trace);
      sum += runPolicy(policy, jobs, onesCluster(), options).meanCompletion(jobs);
    }
    return sum;
  };
  double ones = mean("ones");
  EXPECT_LT(ones, 0.73 * mean("tiresias"));
  EXPECT_LT(ones, 0.78 * mean("optimus"));
  for (const char *policy : {"fifo", "fifo-backfill", "drf"})
    EXPECT_LT(ones, mean(policy)) << policy;
}

} // namespace
