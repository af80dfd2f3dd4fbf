// The event loop: where time goes, what changes cost, and that it is the same every time.
#include "lib/Scheduler/Report.h"
#include "lib/Scheduler/Trace.h"
#include "test/unit/scheduler/Jobs.h"
#include <chrono>
#include <gmock/gmock.h>
#include <set>
#include <thread>

using namespace tessera::scheduler;

namespace {

std::vector<Job> shortTrace(double gap, uint64_t seed) {
  TraceOptions options;
  options.jobs = 15;
  options.gap = gap;
  options.seed = seed;
  return onesTrace(options);
}

TEST(Engine, StartsAndResizesTakeTime) {
  Cluster cluster = freeCluster(4);
  cluster.pauses.restart = 3;
  Result result = runPolicy("fifo", {rigidJob("a", 1, 3, 10)}, cluster);
  EXPECT_DOUBLE_EQ(result.jobs[0].start, 1);
  EXPECT_DOUBLE_EQ(result.jobs[0].end, 14);
  EXPECT_DOUBLE_EQ(result.seconds.work, 30);
  EXPECT_DOUBLE_EQ(result.seconds.resize, 9);
  EXPECT_DOUBLE_EQ(result.seconds.idle, 4 * 1 + 13);
}

// DRF takes two of A's places at 2 and gives them back at the end of B.
std::vector<double> endsOfTwo(bool elastic) {
  Cluster cluster = freeCluster(4);
  cluster.pauses = {1, 3};
  std::vector<Job> jobs = {elasticJob("a", 0, 4, 40), elasticJob("b", 2, 4, 8)};
  SimulatedClock clock;
  return ends(simulate(jobs, cluster, *makePolicy("drf", {}), clock, {1, elastic}));
}

TEST(Engine, AResizeCostsLessThanARestart) {
  // B: 3 to start, 4 to run. A with restarts begins at 5 (its start is not done at 2), does 8 until 9, stands
  // until 12.
  EXPECT_EQ(endsOfTwo(false), (std::vector<double>{20, 9}));
  // With resizes it begins at 3, does 12 until 9, stands until 10.
  EXPECT_EQ(endsOfTwo(true), (std::vector<double>{17, 9}));
}

// As above, but A stands still for longer: by what the job says, or by its number of parameters.
TEST(Engine, AJobStandsStillForItsOwnTime) {
  Cluster cluster = freeCluster(4);
  cluster.pauses = {1, 3};
  cluster.measured = {{10e6, {1, 3}}, {30e6, {2, 5}}};
  std::vector<Job> jobs = {elasticJob("a", 0, 4, 40), elasticJob("b", 2, 4, 8)};
  auto endsOfThem = [&](bool elastic) {
    SimulatedClock clock;
    return ends(simulate(jobs, cluster, *makePolicy("drf", {}), clock, {1, elastic}));
  };
  jobs[0].resizeSeconds = 2;
  jobs[0].restartSeconds = 5;
  // A with restarts begins at 7, does 4 until 9, stands until 14. With resizes it begins at 5, does 8 until
  // 9, stands until 11.
  const std::vector<double> restarting = {23, 9}, resizing = {19, 9};
  EXPECT_EQ(endsOfThem(false), restarting);
  EXPECT_EQ(endsOfThem(true), resizing);
  jobs[0].resizeSeconds = jobs[0].restartSeconds = std::nullopt;
  jobs[0].parameters = 30e6;
  EXPECT_EQ(endsOfThem(false), restarting);
  EXPECT_EQ(endsOfThem(true), resizing);
}

// B comes when A has worked for two seconds and would need eight more on all places; B needs two of them.
TEST(Engine, OnesKnowsWhatAJobsPauseTakes) {
  auto endsWith = [](double resize, double restart) {
    std::vector<Job> jobs = {elasticJob("a", 0, 4, 40), elasticJob("b", restart + 2, 4, 8)};
    jobs[0].resizeSeconds = resize;
    jobs[0].restartSeconds = restart;
    return ends(runPolicy("ones", jobs, freeCluster(4)));
  };
  // If A makes room it ends 2 + 5 seconds later, and B 8 seconds earlier.
  EXPECT_EQ(endsWith(100, 5), (std::vector<double>{22, 9}));
  // 2 + 7 seconds are not worth it,
  EXPECT_EQ(endsWith(100, 7), (std::vector<double>{17, 19}));
  // but A can keep a place where that costs nothing.
  EXPECT_THAT(endsWith(0, 7),
              testing::Pointwise(testing::DoubleNear(1e-9), std::vector<double>{19, 9 + 8.0 / 3}));
}

TEST(Engine, AJobOnMoreHostsThanItNeedsIsSlower) {
  Cluster cluster = freeCluster(2);
  cluster.hosts = {{"a", 2}, {"b", 2}};
  cluster.spread = 0.5;
  // The third has to take a place on each host.
  Result result = runPolicy(
      "fifo", {rigidJob("a", 0, 1, 100), rigidJob("b", 0, 2, 10), rigidJob("c", 20, 1, 100)}, cluster);
  EXPECT_DOUBLE_EQ(result.jobs[1].end, 10);
  Job wide = rigidJob("d", 30, 2, 10);
  result = runPolicy("fifo", {rigidJob("a", 0, 1, 100), rigidJob("b", 0, 2, 100), wide}, cluster);
  EXPECT_DOUBLE_EQ(result.jobs[2].end, 110);
}

TEST(Engine, PlacesTimesSpanIsWorkIdleAndResize) {
  Cluster cluster = onesCluster();
  cluster.spread = 0.9;
  for (const std::string &policy : policyNames())
    for (double gap : {5, 60})
      for (uint64_t seed : {1, 2}) {
        std::vector<Job> jobs = shortTrace(gap, seed);
        PolicyOptions options;
        options.seed = seed;
        Result result = runPolicy(policy, jobs, cluster, options);
        double whole = cluster.places() * result.span;
        EXPECT_NEAR(result.seconds.work + result.seconds.idle + result.seconds.resize, whole, 1e-9 * whole)
            << policy;
        EXPECT_GE(std::min({result.seconds.work, result.seconds.idle, result.seconds.resize}), 0) << policy;
      }
}

TEST(Engine, JobsHavePlacesThatTheyCanUseAndNobodyElseHas) {
  for (const std::string &policy : policyNames()) {
    std::vector<Job> jobs = shortTrace(5, 3);
    Result result = runPolicy(policy, jobs, onesCluster());
    std::vector<std::vector<int>> has(jobs.size());
    for (size_t i = 0; i < result.changes.size(); ++i) {
      const Change &change = result.changes[i];
      const Job &job = jobs[change.job];
      int count = static_cast<int>(change.places.size());
      EXPECT_TRUE(count == 0 || (count >= job.fewest() && count <= job.most())) << policy << " " << job.name;
      EXPECT_GE(change.time, job.arrival);
      has[change.job] = change.places;
      if (i + 1 < result.changes.size() && result.changes[i + 1].time == change.time)
        continue; // not all changes of this moment have been made
      std::set<int> taken;
      for (auto &places : has)
        for (int place : places)
          EXPECT_TRUE(taken.insert(place).second) << policy << " gives place " << place << " twice";
    }
    for (auto &places : has)
      EXPECT_TRUE(places.empty());
  }
}

TEST(Engine, TheSameTraceTwiceGivesTheSamePage) {
  for (const std::string &policy : policyNames()) {
    auto page = [&] {
      std::vector<Job> jobs = shortTrace(20, 4);
      Result result = runPolicy(policy, jobs, onesCluster());
      return pageOf({{policy, 20, 4, std::move(jobs), std::move(result)}}, onesCluster());
    };
    EXPECT_EQ(page(), page()) << policy;
  }
}

// Real time, a million times as fast.
class FastClock : public Clock {
public:
  void waitUntil(double seconds) override {
    ++waits;
    std::this_thread::sleep_until(begin + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                              std::chrono::duration<double, std::micro>(seconds)));
  }
  int waits = 0;

private:
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
};

TEST(Engine, PoliciesCannotTellClocksApart) {
  std::vector<Job> jobs = shortTrace(30, 5);
  FastClock real;
  SimulatedClock simulated;
  Result first = simulate(jobs, onesCluster(), *makePolicy("ones", {}), simulated);
  auto before = std::chrono::steady_clock::now();
  Result second = simulate(jobs, onesCluster(), *makePolicy("ones", {}), real);
  EXPECT_GE(std::chrono::steady_clock::now() - before,
            std::chrono::microseconds(static_cast<long>(second.span)));
  EXPECT_GE(real.waits, second.decisions);
  EXPECT_EQ(ends(first), ends(second));
  EXPECT_EQ(first.changes.size(), second.changes.size());
}

TEST(Trace, HasTheKindsEquallyOften) {
  std::vector<Job> jobs = onesTrace({});
  std::map<std::string, int> kinds;
  for (const Job &job : jobs) {
    ++kinds[job.kind];
    EXPECT_FALSE(job.told());
  }
  EXPECT_EQ(kinds.size(), 10u);
  for (auto &[kind, count] : kinds)
    EXPECT_EQ(count, 5) << kind;
  for (const Job &job : jobs)
    if (job.kind == "resnet50/imagenet") {
      EXPECT_NEAR(job.throughputAt(16), 1750, 1e-9);
      double efficiency = job.throughputAt(16) / (16 * job.throughputAt(1));
      EXPECT_TRUE(efficiency >= 0.4 && efficiency <= 0.5) << efficiency;
    }
}

TEST(Cluster, PausesLieBetweenThoseThatWereMeasured) {
  Cluster cluster;
  cluster.pauses = {7, 8};
  Job job;
  auto expect = [&](double parameters, double resize, double restart) {
    job.parameters = parameters;
    EXPECT_DOUBLE_EQ(cluster.pausesOf(job).resize, resize) << parameters;
    EXPECT_DOUBLE_EQ(cluster.pausesOf(job).restart, restart) << parameters;
  };
  expect(20e6, 7, 8); // nothing was measured
  cluster.measured = {{10e6, {1, 4}}, {20e6, {2, 5}}, {40e6, {6, 15}}};
  expect(0, 7, 8); // the job does not say
  expect(1e6, 1, 4);
  expect(10e6, 1, 4);
  expect(15e6, 1.5, 4.5);
  expect(20e6, 2, 5);
  expect(35e6, 5, 12.5);
  expect(40e6, 6, 15);
  expect(1e9, 6, 15);
  job.restartSeconds = 1;
  expect(35e6, 5, 1);
  job.resizeSeconds = 0;
  expect(35e6, 0, 1);
}

TEST(Trace, JobsStandStillAsModelsOfTheirSizeDo) {
  Cluster cluster = onesCluster();
  std::map<std::string, double> restart, resize;
  for (const Job &job : onesTrace({})) {
    restart[job.kind] = cluster.pausesOf(job).restart;
    resize[job.kind] = cluster.pausesOf(job).resize;
  }
  EXPECT_DOUBLE_EQ(restart["bert/cola"], 11.3);
  EXPECT_DOUBLE_EQ(restart["vgg16/imagenet"], 11.3);
  EXPECT_DOUBLE_EQ(restart["alexnet/imagenet"], 4.2);
  EXPECT_DOUBLE_EQ(restart["googlenet/cifar"], 2.9);
  EXPECT_NEAR(restart["resnet50/imagenet"], 2.9 + 1.3 * 11.6 / 47, 1e-9);
  EXPECT_NEAR(resize["resnet50/imagenet"], 0.2 + 0.7 * 11.6 / 47, 1e-9);
}

TEST(Job, ABatchThatStaysIsWorkedOffByFewerPlaces) {
  Job job = elasticJob("a", 0, 4, 100);
  job.throughput = {{1, 10.0}, {4, 20.0}}; // a step of 4 samples: 0.1 s of work, 0.1 s of communication
  job.largestBatch = 8;
  Cluster cluster = freeCluster(4);
  EXPECT_DOUBLE_EQ(speeds(job, cluster, Batch::Places)[1], 10);
  EXPECT_DOUBLE_EQ(speeds(job, cluster, Batch::Asked)[1], 10);
  EXPECT_DOUBLE_EQ(speeds(job, cluster, Batch::Asked)[4], 20);
  // Two places: the table says 13.3 samples/s for a batch of 2, of which 0.05 s are communication.
  EXPECT_NEAR(speeds(job, cluster, Batch::AtLeastAsked)[2], 4 / (0.2 + 0.05), 1e-9);
  cluster.lostPerDoubling = 0.1;
  EXPECT_DOUBLE_EQ(speeds(job, cluster, Batch::AtLeastAsked)[4], 20);
  job.throughput[8] = 40;
  cluster.hosts[0].places = 8;
  EXPECT_DOUBLE_EQ(speeds(job, cluster, Batch::AtLeastAsked)[8], 36);
}

} // namespace
