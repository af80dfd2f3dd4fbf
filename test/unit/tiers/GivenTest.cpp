// Plans that are given, values that are decided beforehand, and plans beside their alternatives.
#include "Traces.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <set>

using namespace tessera::tiers;

namespace {

constexpr Rates kRates{2, 1, 0.25};

int64_t peak(const std::vector<int64_t> &bytes) { return *std::max_element(bytes.begin(), bytes.end()); }

/// A step, a limit part of the way from the least to all, and what is chosen for it.
struct Case {
  Step step;
  Limits limits;
  std::optional<Plan> plan;

  explicit Case(uint64_t seed) {
    Random random(seed);
    step = training(random, {between(random, 2, 5), seed % 2 == 0, seed % 3 == 0, true});
    int64_t least = leastDeviceBytes(step).first, most = peak(step.bytes);
    limits.device = least + (most - least) * between(random, 1, 9) / 10;
    plan = choose(step, limits, kRates);
  }
};

TEST(Given, WhatWasChosenIsTakenAsItIs) {
  int moved = 0;
  for (uint64_t seed = 0; seed < 16; ++seed) {
    Case each(seed);
    ASSERT_TRUE(each.plan);
    std::vector<Move> moves = each.plan->moves;
    Random random(seed);
    for (size_t i = moves.size(); i > 1; --i)
      std::swap(moves[i - 1], moves[random() % i]);
    std::optional<Plan> given = planOf(each.step, moves, kRates);
    ASSERT_TRUE(given);
    EXPECT_EQ(given->moves, each.plan->moves);
    EXPECT_EQ(given->seconds, each.plan->seconds);
    EXPECT_EQ(given->devicePeak, each.plan->devicePeak);
    EXPECT_EQ(given->hostPeak, each.plan->hostPeak);
    EXPECT_EQ(given->bytesDown, each.plan->bytesDown);
    EXPECT_EQ(given->bytesUp, each.plan->bytesUp);
    moved += static_cast<int>(moves.size());
  }
  EXPECT_GT(moved, 50);
}

TEST(Given, WhatIsNoPlanIsRefused) {
  int refused = 0, taken = 0;
  for (uint64_t seed = 0; seed < 16; ++seed) {
    Case each(seed);
    Random random(seed);
    for (size_t i = 0; i < each.plan->moves.size(); ++i) {
      std::vector<Move> moves = each.plan->moves;
      Move &move = moves[i];
      switch (between(random, 0, 5)) {
      case 0:
        move.prefetch += between(random, -3, 3);
        break;
      case 1:
        move.gone += between(random, -2, 2);
        break;
      case 2:
        move.offload = move.gone = -1; // of a copy that is stale, or clean as before
        break;
      case 3:
        moves.push_back(move); // twice
        break;
      case 4:
        move.gap += 7;
        break;
      default:
        moves.erase(moves.begin() + static_cast<std::ptrdiff_t>(i)); // on which others may depend
      }
      bool isPlan = planOf(each.step, moves, kRates).has_value();
      if (isPlan)
        EXPECT_EQ(whyWrong(each.step, moves), "") << "seed " << seed << " move " << i;
      (isPlan ? taken : refused)++;
    }
  }
  EXPECT_GT(refused, 25);
  EXPECT_GT(taken, 10);
}

TEST(Given, ValuesAreOutOfReach) {
  Case each(1);
  EXPECT_FALSE(planOf(each.step, {{-1, 0, -1, -1, 0}}, kRates));
  EXPECT_FALSE(planOf(each.step, {{1 << 20, 0, -1, -1, 0}}, kRates));
  each.step.values[0].rests = each.step.values[0].below = true;
  EXPECT_FALSE(planOf(each.step, {}, kRates)); // it is kept
}

/// What is decided for some values holds, and the search does the rest.
TEST(Decided, OnlyAndAlways) {
  int always = 0, others = 0;
  for (uint64_t seed = 0; seed < 16; ++seed) {
    Case each(seed);
    Random random(seed);
    Step step = each.step;
    std::set<std::pair<int, int>> must;
    for (size_t v = 0; v < step.values.size(); ++v) {
      Value &value = step.values[v];
      if (between(random, 0, 3) > 0 || value.uses.size() < 2)
        continue;
      value.decided = true;
      for (int gap = 0; gap + 1 < static_cast<int>(value.uses.size()); ++gap)
        if (between(random, 0, 1) == 1 && value.uses[gap].position + 1 < value.uses[gap + 1].position) {
          value.always.push_back(gap);
          must.insert({static_cast<int>(v), gap});
        }
      value.below = value.rests && !value.always.empty();
    }
    int64_t least = leastDeviceBytes(step).first, most = peak(step.bytes);
    EXPECT_GE(least, leastDeviceBytes(each.step).first);
    std::optional<Plan> plan = choose(step, {(least + most) / 2, INT64_MAX}, kRates);
    ASSERT_TRUE(plan) << seed;
    EXPECT_EQ(whyWrong(step, plan->moves), "");
    EXPECT_LE(plan->devicePeak, (least + most) / 2);
    std::set<std::pair<int, int>> moved;
    for (const Move &move : plan->moves) {
      moved.insert({move.value, move.gap});
      const Value &value = step.values[move.value];
      bool isHome = value.below && move.gap + 1 == static_cast<int>(value.uses.size());
      EXPECT_TRUE(!value.decided || isHome || must.count({move.value, move.gap}));
      others += static_cast<int>(!must.count({move.value, move.gap}));
    }
    for (auto each : must)
      EXPECT_TRUE(moved.count(each)) << "seed " << seed << " value " << each.first << " gap " << each.second;
    always += static_cast<int>(must.size());
  }
  EXPECT_GT(always, 10);
  EXPECT_GT(others, 10);
}

/// One value of 4 bytes that is used at both ends of five operators of a second each.
Step oneGap() {
  Step step;
  step.seconds.assign(5, 1.0);
  Value &value = step.values.emplace_back();
  value.bytes = 4;
  value.uses = {{0, false}, {4, false}};
  step.bytes.assign(5, 6);
  return step;
}

TEST(Alternatives, OfOneGap) {
  Step step = oneGap();
  // Down in 2.25 s, up in 4.25 s: what is moved is waited for.
  std::optional<Plan> kept = planOf(step, {}, kRates), moved = planOf(step, {{0, 0, 1, 3, 3}}, kRates);
  ASSERT_TRUE(kept && moved);
  EXPECT_EQ(kept->seconds, 5);
  std::vector<Alternative> of = alternatives(step, *moved, {2, INT64_MAX}, kRates);
  ASSERT_EQ(of.size(), 1u);
  EXPECT_TRUE(of[0].isMoved);
  EXPECT_EQ(of[0].seconds, 5);
  EXPECT_EQ(of[0].planSeconds, moved->seconds);
  EXPECT_EQ(of[0].devicePeak, 6);
  EXPECT_EQ(of[0].hostPeak, 0);
  of = alternatives(step, *kept, {INT64_MAX, INT64_MAX}, kRates);
  ASSERT_EQ(of.size(), 1u);
  EXPECT_FALSE(of[0].isMoved);
  EXPECT_GT(of[0].seconds, 5);
  EXPECT_EQ(of[0].hostPeak, 4);
}

/// The figures of an alternative are those of a plan that has it: nothing else changes but what must.
TEST(Alternatives, AreOnePlanEach) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Case each(seed);
    for (const Alternative &other : alternatives(each.step, *each.plan, each.limits, kRates)) {
      bool isMoved = std::any_of(each.plan->moves.begin(), each.plan->moves.end(), [&](const Move &move) {
        return move.value == other.value && move.gap == other.gap;
      });
      EXPECT_EQ(other.isMoved, isMoved);
      EXPECT_EQ(other.planSeconds, each.plan->seconds);
      if (!isMoved)
        continue;
      // Without the move and, if that was round the end, without all of the value.
      const Value &value = each.step.values[other.value];
      std::vector<Move> moves = each.plan->moves;
      std::erase_if(moves, [&](const Move &move) {
        return move.value == other.value &&
               (move.gap == other.gap ||
                (value.rests && other.gap + 1 == static_cast<int>(value.uses.size())));
      });
      if (std::optional<Plan> plan = planOf(each.step, moves, kRates)) {
        EXPECT_EQ(other.seconds, plan->seconds);
        EXPECT_EQ(other.devicePeak, plan->devicePeak);
        EXPECT_EQ(other.hostPeak, plan->hostPeak);
      }
    }
  }
}

TEST(Timeline, EndsWithTheStep) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Case each(seed);
    std::vector<double> times = timeline(each.step, *each.plan, kRates);
    ASSERT_EQ(times.size(), each.step.seconds.size() + 1);
    EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
    for (size_t p = 0; p + 1 < times.size(); ++p)
      EXPECT_GE(times[p + 1] - times[p], each.step.seconds[p] * (1 - 1e-9));
    EXPECT_LE(times.back(), each.plan->seconds); // offloads at the end are waited for behind it
  }
}

} // namespace
