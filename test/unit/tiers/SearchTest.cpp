// The search against all plans of small steps, and what holds for any plan.
#include "Exhaustive.h"
#include "Traces.h"
#include "passes/Tiers/Parallel.h"
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <gtest/gtest.h>
#include <iostream>
#include <iterator>
#include <limits>
#include <numeric>
#include <string_view>
#include <thread>

using namespace tessera::tiers;

namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

int64_t peak(const std::vector<int64_t> &bytes) { return *std::max_element(bytes.begin(), bytes.end()); }

/// What a plan promises is what the judges say, within the limits.
void expectHonest(const Step &step, const Plan &plan, const Limits &limits, const Rates &rates) {
  ASSERT_EQ(whyWrong(step, plan.moves), "");
  EXPECT_EQ(plan.devicePeak, peak(deviceBytes(step, plan.moves)));
  EXPECT_EQ(plan.hostPeak, peak(hostBytes(step, plan.moves)));
  EXPECT_EQ(plan.seconds, simulate(step, plan.moves, rates));
  EXPECT_LE(plan.devicePeak, limits.device);
  EXPECT_LE(plan.hostPeak, limits.host);
  EXPECT_GE(plan.seconds, largestLoad(step, plan.moves, rates) * (1 - 1e-12));
  int64_t down = 0, up = 0;
  for (const Move &move : plan.moves) {
    up += step.values[move.value].bytes;
    down += move.offload < 0 ? 0 : step.values[move.value].bytes;
  }
  EXPECT_EQ(plan.bytesDown, down);
  EXPECT_EQ(plan.bytesUp, up);
}

Rates anyRates(Random &random) {
  return {static_cast<double>(between(random, 1, 6)) / 2, static_cast<double>(between(random, 1, 6)) / 2,
          static_cast<double>(between(random, 0, 2)) / 4};
}

Step smallStep(Random &random, int kind) {
  switch (kind) {
  case 0:
    return training(random, {between(random, 2, 3), false, false, true});
  case 1:
    return training(random, {between(random, 2, 4), true, false, false});
  case 2:
    return training(random, {between(random, 2, 3), false, true, true});
  default:
    return anyStep(random, between(random, 3, 9), between(random, 2, 5));
  }
}

/// What the search finds beside the best of all plans, in small steps.
struct Comparison {
  int proven = 0, optimal = 0;
  double sum = 0, worst = 0; // how much above, as parts
  void add(double seconds, double best) {
    ++proven;
    optimal += seconds == best ? 1 : 0;
    sum += seconds / best - 1;
    worst = std::max(worst, seconds / best - 1);
  }
  void expectClose() const {
    std::cout << proven << " steps, " << optimal << " optimal, mean " << 100 * sum / proven << " %, worst "
              << 100 * worst << " % above\n";
    EXPECT_LE(sum / proven, 0.01);
    EXPECT_LE(worst, 0.05);
  }
};

constexpr int64_t kTries = 60'000;

/// Whether `tools/test --all` runs.
bool isWhole() {
  const char *all = std::getenv("TESSERA_TEST_ALL");
  return all && std::string_view(all) == "1";
}

TEST(Search, IsCloseToTheBestOfAllPlans) {
  Random random(1);
  Comparison comparison;
  for (int trial = 0; comparison.proven < (isWhole() ? 300 : 60); ++trial) {
    ASSERT_LT(trial, 600);
    Step step = smallStep(random, trial % 4);
    int64_t least = leastDeviceBytes(step).first, all = peak(step.bytes);
    Limits limits{between(random, least, std::max(least, all - 1))};
    Rates rates = anyRates(random);
    std::optional<Plan> plan = choose(step, limits, rates);
    ASSERT_TRUE(plan);
    expectHonest(step, *plan, limits, rates);
    Optimum optimum = exhaustive(step, limits, rates, plan->seconds, kTries);
    if (optimum.proven)
      comparison.add(plan->seconds, optimum.seconds);
  }
  comparison.expectClose();
}

TEST(Search, FindsAPlanWithinBothLimitsWhereThereIsOne) {
  Random random(2);
  Comparison comparison;
  int limited = 0;
  for (int trial = 0; trial < (isWhole() ? 400 : 80); ++trial) {
    Step step = trial % 3 == 0 ? training(random, {2, false, trial % 2 == 0, false})
                               : anyStep(random, between(random, 3, 9), between(random, 2, 5));
    // Exactly what some moves need, of those that do anything.
    Limits limits{peak(step.bytes), 0};
    for (int i = 0; i < 20; ++i) {
      std::vector<Move> moves = anyMoves(random, step);
      uint64_t kept = random();
      std::erase_if(moves, [&](const Move &move) { return kept >> move.value & 1; });
      Limits needed{peak(deviceBytes(step, moves)), peak(hostBytes(step, moves))};
      if (needed.device < peak(step.bytes) && (limits.host == 0 || needed.host < limits.host))
        limits = needed;
    }
    if (limits.host == 0)
      continue;
    Rates rates = anyRates(random);
    std::optional<Plan> plan = choose(step, limits, rates);
    ASSERT_TRUE(plan) << "trial " << trial;
    expectHonest(step, *plan, limits, rates);
    limited += choose(step, {limits.device}, rates)->hostPeak > limits.host ? 1 : 0;
    Optimum optimum = exhaustive(step, limits, rates, plan->seconds, kTries);
    if (optimum.proven && !plan->moves.empty())
      comparison.add(plan->seconds, optimum.seconds);
  }
  EXPECT_GT(limited, isWhole() ? 5 : 1);
  EXPECT_GT(comparison.proven, isWhole() ? 80 : 15);
  comparison.expectClose();
}

TEST(Search, ObeysTheHostsLimit) {
  Random random(8);
  for (int trial = 0; trial < 8; ++trial) {
    Step step = training(random, {between(random, 5, 20), trial % 2 == 0, false, true});
    Limits limits{(leastDeviceBytes(step).first + 2 * peak(step.bytes)) / 3};
    Rates rates{1, 1, 0.1};
    std::optional<Plan> free = choose(step, limits, rates);
    ASSERT_TRUE(free);
    // What the device has no room for is the least that the host must take.
    int64_t needed = peak(step.bytes) - limits.device;
    ASSERT_LE(needed, free->hostPeak);
    for (int64_t part = 1; part <= 3; ++part) {
      limits.host = needed + (free->hostPeak - needed) * part / 4;
      std::optional<Plan> plan = choose(step, limits, rates);
      ASSERT_TRUE(plan);
      expectHonest(step, *plan, limits, rates);
      EXPECT_GE(plan->seconds, free->seconds * 0.99);
    }
    limits.host = needed - 1;
    EXPECT_FALSE(choose(step, limits, rates));
  }
}

/// What another program rests on the host comes up and goes down here too, whatever memory there is.
TEST(Search, MovesWhatRestsOnTheHost) {
  Step step;
  step.seconds = {1, 1, 1};
  step.bytes = {200, 200, 200};
  step.values = {{100, true, {{1, true}}, /*below=*/true}, {100, true, {{0}, {2}}}};
  std::optional<Plan> plan = choose(step, {1000, 1000}, {10, 10, 0});
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->moves.size(), 1u);
  EXPECT_EQ(plan->moves[0].value, 0);
  EXPECT_EQ(plan->bytesDown, 100);
  EXPECT_EQ(plan->bytesUp, 100);
  EXPECT_EQ(whyWrong(step, plan->moves), "");
}

TEST(Search, MovesNothingWhereAllFits) {
  Random random(3);
  for (int trial = 0; trial < 100; ++trial) {
    Step step = smallStep(random, trial % 4);
    std::optional<Plan> plan = choose(step, {peak(step.bytes)}, {1, 1, 0});
    ASSERT_TRUE(plan);
    EXPECT_TRUE(plan->moves.empty());
    EXPECT_EQ(plan->devicePeak, peak(step.bytes));
    EXPECT_EQ(plan->hostPeak, 0);
    EXPECT_EQ(plan->seconds, std::accumulate(step.seconds.begin(), step.seconds.end(), 0.0));
    EXPECT_EQ(plan->bytesDown + plan->bytesUp, 0);
  }
}

TEST(Search, FitsInTheLeastAndNotBelow) {
  Random random(4);
  for (int trial = 0; trial < 40; ++trial) {
    Step step = trial < 10 ? training(random, {between(random, 5, 30), trial % 2 == 0, trial % 3 == 0, true})
                           : anyStep(random, between(random, 2, 30), between(random, 2, 20));
    int64_t least = leastDeviceBytes(step).first;
    Rates rates = anyRates(random);
    std::optional<Plan> plan = choose(step, {least}, rates);
    ASSERT_TRUE(plan);
    expectHonest(step, *plan, {least}, rates);
    EXPECT_FALSE(choose(step, {least - 1}, rates));
  }
}

TEST(Search, GivesTheSamePlanAgain) {
  Random random(5);
  for (int trial = 0; trial < 4; ++trial) {
    Step step = training(random, {between(random, 3, 25), trial % 2 == 0, false, true});
    Limits limits{(leastDeviceBytes(step).first + peak(step.bytes)) / 2};
    Rates rates = anyRates(random);
    // However many threads it has: those that search here at the same time leave each other none.
    std::vector<std::optional<Plan>> plans(std::thread::hardware_concurrency() + 1);
    plans.front() = choose(step, limits, rates);
    inParallel(plans.size() - 1, [&](size_t i) { plans[i + 1] = choose(step, limits, rates); });
    for (const std::optional<Plan> &plan : plans)
      EXPECT_EQ(plan->moves, plans.front()->moves);
  }
}

/// More of something never makes a step slower, by more than the search may miss.
void expectFalling(const std::vector<double> &seconds) {
  double least = kForever;
  for (double s : seconds) {
    EXPECT_LE(s, least * 1.01);
    least = std::min(least, s);
  }
}

TEST(Search, IsNoSlowerWithMoreMemory) {
  Random random(6);
  for (int trial = 0; trial < 4; ++trial) {
    Step step = training(random, {between(random, 4, 30), trial % 2 == 0, trial % 3 == 0, true});
    int64_t least = leastDeviceBytes(step).first, all = peak(step.bytes);
    std::vector<double> seconds;
    for (int64_t part = 0; part <= 8; ++part)
      seconds.push_back(choose(step, {least + (all - least) * part / 8}, {1.5, 1.5, 0.1})->seconds);
    expectFalling(seconds);
    EXPECT_GT(seconds.front(), seconds.back());
  }
}

TEST(Search, IsNoSlowerWithAFasterLink) {
  Random random(7);
  for (int trial = 0; trial < 4; ++trial) {
    Step step = training(random, {between(random, 4, 30), trial % 2 == 0, trial % 3 == 0, true});
    Limits limits{(leastDeviceBytes(step).first * 3 + peak(step.bytes)) / 4};
    std::vector<double> seconds;
    for (double rate = 0.5; rate < 40; rate *= 2)
      seconds.push_back(choose(step, limits, {rate, rate, 0.1})->seconds);
    expectFalling(seconds);
    EXPECT_GT(seconds.front(), seconds.back());
  }
}

TEST(Search, IsNoSlowerWithMoreOfAnythingInRealSteps) {
  std::vector<Gpt> models = {{2, 768, 4096, 16, 256}, {4, 4096, 50304, 8, 2048}};
  if (isWhole())
    models.insert(models.end(),
                  {{4, 768, 4096, 4, 256}, {12, 1024, 50304, 4, 1024}, {24, 384, 4096, 4, 256}});
  for (const Gpt &gpt : models) {
    Step step = training(gpt);
    int64_t least = leastDeviceBytes(step).first, all = peak(step.bytes);
    auto cap = [&](int64_t part) { return least + (all - least) * part / 10; };
    std::vector<double> caps, links, hosts;
    for (int64_t part = 0; part <= 10; part += isWhole() ? 1 : 2)
      caps.push_back(choose(step, {cap(part)}, {5e10, 5e10, 1e-5})->seconds);
    for (double rate = 1e10; rate < 1e12; rate *= 2)
      links.push_back(choose(step, {cap(4)}, {rate, rate, 1e-5})->seconds);
    std::optional<Plan> free = choose(step, {cap(4)}, {5e10, 5e10, 1e-5});
    for (int64_t more : {0, 1000, 1'000'000})
      hosts.push_back(choose(step, {cap(4), free->hostPeak + more}, {5e10, 5e10, 1e-5})->seconds);
    for (const auto &seconds : {caps, links, hosts})
      expectFalling(seconds);
    EXPECT_EQ(hosts.front(), free->seconds);
  }
}

/// Of what is free by the clock no more is moved than the device lacks.
TEST(Search, MovesLittleWhereItCostsNothing) {
  for (const Gpt &gpt : {Gpt{4, 4096, 4096, 16, 2048}, Gpt{12, 2048, 4096, 32, 1024}}) {
    Step step = training(gpt);
    Limits limits{peak(step.bytes) * 9 / 10};
    std::optional<Plan> plan = choose(step, limits, {5e10, 5e10, 1e-5});
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->seconds, std::accumulate(step.seconds.begin(), step.seconds.end(), 0.0));
    EXPECT_LT(static_cast<double>(plan->bytesDown),
              1.1 * static_cast<double>(peak(step.bytes) - limits.device));
  }
}

/// 96 layers have 2886 operators, 6055 values and 7304 gaps.
TEST(Search, TakesSecondsForLargeSteps) {
  Step step = training(Gpt{isWhole() ? 96 : 24, 12288, 50304, 8, 2048});
  int64_t all = peak(step.bytes);
  for (int64_t part : {20, 50, 80}) {
    std::clock_t before = std::clock();
    std::optional<Plan> plan = choose(step, {all * part / 100}, {5e10, 5e10, 1e-5});
    EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 10);
    ASSERT_TRUE(plan);
    expectHonest(step, *plan, {all * part / 100}, {5e10, 5e10, 1e-5});
  }
}

/// What is only compared is not much slower than what would be found with more effort.
/// On the average; how far one sketch is off depends on which of equal layers are taken first.
void expectComparesWell(int64_t layers, bool areLarge) {
  Step step = training(Gpt{layers, 12288, 50304, 8, 2048});
  ASSERT_EQ(isLarge(step), areLarge);
  int64_t least = leastDeviceBytes(step).first, all = peak(step.bytes);
  constexpr int kParts[] = {20, 40, 60, 80};
  double sum = 0;
  for (int64_t part : kParts) {
    Limits limits{least + (all - least) * part / 100};
    std::optional<Plan> sketch = choose(step, limits, {5e10, 5e10, 1e-5}, 0.05),
                        plan = choose(step, limits, {5e10, 5e10, 1e-5});
    ASSERT_TRUE(sketch && plan);
    sum += sketch->seconds / plan->seconds;
    EXPECT_NEAR(sketch->seconds / plan->seconds, 1, 0.1) << part;
    expectHonest(step, *sketch, limits, {5e10, 5e10, 1e-5});
  }
  EXPECT_NEAR(sum / std::size(kParts), 1, 0.05);
}

TEST(Search, ComparesLargeStepsWellWithLittleEffort) { expectComparesWell(150, true); }
TEST(Search, ComparesStepsBetweenWellWithLittleEffort) { expectComparesWell(30, false); }

/// Of how many threads are idle a plan does not depend.
TEST(Search, FindsTheSameOnAnyNumberOfThreads) {
  Step step = training(Gpt{150, 12288, 50304, 8, 2048});
  ASSERT_TRUE(isLarge(step));
  Limits limits{peak(step.bytes) / 2};
  auto find = [&] { return choose(step, limits, {5e10, 5e10, 1e-5}); };
  std::optional<Plan> several = find();
  std::vector<std::optional<Plan>> busy(std::max(2U, std::thread::hardware_concurrency()));
  inParallel(busy.size(), [&](size_t i) { busy[i] = find(); });
  ASSERT_TRUE(several);
  for (const std::optional<Plan> &plan : busy) {
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->moves, several->moves);
  }
}

/// Of a large step the first plan that is fast enough; others are searched as if nothing were.
TEST(Search, EndsWhereALargeStepIsFastEnough) {
  for (int64_t layers : {4, 150}) {
    Step step = training(Gpt{layers, 12288, 50304, 8, 2048});
    Limits limits{peak(step.bytes) / 2}, enough = limits;
    std::optional<Plan> best = choose(step, limits, {5e10, 5e10, 1e-5}, 0.02);
    ASSERT_TRUE(best);
    enough.enough = 2 * best->seconds;
    std::optional<Plan> first = choose(step, enough, {5e10, 5e10, 1e-5}, 0.02);
    ASSERT_TRUE(first);
    EXPECT_EQ(isLarge(step), layers == 150);
    EXPECT_EQ(first->moves == best->moves, layers == 4);
    EXPECT_LE(first->seconds, enough.enough);
    expectHonest(step, *first, limits, {5e10, 5e10, 1e-5});
  }
}

TEST(Search, TakesAnyPlanWhereAnyIsFastEnough) {
  for (int64_t layers : {4, 150}) {
    Step step = training(Gpt{layers, 12288, 50304, 8, 2048});
    Limits limits{peak(step.bytes) / 2}, any = limits;
    any.enough = std::numeric_limits<double>::infinity();
    std::optional<Plan> best = choose(step, limits, {5e10, 5e10, 1e-5}, 0.02),
                        first = choose(step, any, {5e10, 5e10, 1e-5}, 0.02);
    ASSERT_TRUE(best && first);
    EXPECT_NE(first->moves, best->moves);
    EXPECT_GE(first->seconds, best->seconds);
    expectHonest(step, *first, limits, {5e10, 5e10, 1e-5});
  }
}

TEST(Search, TriesLessWithLessEffort) {
  Random random(9);
  double less = 0, usual = 0;
  for (int trial = 0; trial < 10; ++trial) {
    Step step = training(random, {10, trial % 2 == 0, false, true});
    Limits limits{(leastDeviceBytes(step).first * 2 + peak(step.bytes)) / 3};
    std::optional<Plan> quick = choose(step, limits, {1, 1, 0.1}, 0.05);
    ASSERT_TRUE(quick);
    expectHonest(step, *quick, limits, {1, 1, 0.1});
    less += quick->seconds;
    usual += choose(step, limits, {1, 1, 0.1})->seconds;
  }
  EXPECT_LE(usual, less);
  EXPECT_LE(less, 1.1 * usual);
}

} // namespace
