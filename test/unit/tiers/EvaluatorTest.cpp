// The two judges of a plan: bytes by position, against a count of what is where, and seconds, against times
// that can be told without simulating.
#include "Traces.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <set>

using namespace tessera::tiers;

namespace {

constexpr int kTrials = 2000;

/// Walks through two steps and does what the moves say; what the second one takes.
struct Walk {
  const Step &step;
  const std::vector<Move> &moves;
  std::set<int> device, host;
  std::vector<int64_t> deviceTaken, hostTaken;

  int64_t sum(const std::set<int> &values) const {
    int64_t bytes = 0;
    for (int v : values)
      bytes += step.values[v].bytes;
    return bytes;
  }
  bool staysBelow(int v, int64_t after) const {
    for (const Move &move : moves) {
      const auto &uses = step.values[v].uses;
      if (move.value == v &&
          (move.gap + 1 == static_cast<int>(uses.size()) || uses[move.gap + 1].position > after))
        return true;
    }
    return false;
  }
  void run() {
    auto n = static_cast<int64_t>(step.seconds.size());
    deviceTaken.resize(n);
    hostTaken.resize(n);
    for (size_t v = 0; v < step.values.size(); ++v)
      if (step.values[v].rests)
        device.insert(static_cast<int>(v));
    for (const Move &move : moves) // homes on the host
      if (move.gap + 1 == static_cast<int>(step.values[move.value].uses.size()))
        host.insert(move.value);
    int64_t other = step.bytes[0];
    for (size_t v = 0; v < step.values.size(); ++v)
      if (step.values[v].rests || step.values[v].uses[0].position == 0)
        other -= step.values[v].bytes;
    for (int turn = 0; turn < 2; ++turn)
      for (int64_t p = 0; p <= n; ++p) {
        events(p);
        if (p == n)
          break;
        for (size_t v = 0; v < step.values.size(); ++v) {
          const Value &value = step.values[v];
          if (!value.rests && value.uses.front().position == p)
            device.insert(static_cast<int>(v));
          for (const Use &use : value.uses)
            if (use.position == p) {
              EXPECT_TRUE(device.contains(static_cast<int>(v))) << "used where it is not";
            }
        }
        deviceTaken[p] = other + sum(device);
        hostTaken[p] = sum(host);
        behind(p);
      }
  }
  void events(int64_t p) {
    for (const Move &move : moves)
      if (move.offload == p)
        host.insert(move.value);
    for (const Move &move : moves)
      if (move.gone == p)
        device.erase(move.value);
    for (const Move &move : moves)
      if (move.prefetch == p)
        device.insert(move.value);
  }
  /// What ends behind an operator: values without further uses, clean ones, copies that nobody needs.
  void behind(int64_t p) {
    for (size_t v = 0; v < step.values.size(); ++v)
      if (!step.values[v].rests && step.values[v].uses.back().position == p)
        device.erase(static_cast<int>(v));
    for (const Move &move : moves)
      if (move.offload < 0 && step.values[move.value].uses[move.gap].position == p)
        device.erase(move.value);
    for (const Move &move : moves)
      if (!staysBelow(move.value, p))
        host.erase(move.value);
  }
};

TEST(Memory, IsWhatAWalkThroughTheStepCounts) {
  Random random(1);
  int moved = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    Step step = anyStep(random, between(random, 1, 12), between(random, 1, 8));
    std::vector<Move> moves = anyMoves(random, step);
    ASSERT_EQ(whyWrong(step, moves), "");
    moved += static_cast<int>(moves.size());
    Walk walk{step, moves, {}, {}, {}, {}};
    walk.run();
    ASSERT_EQ(deviceBytes(step, moves), walk.deviceTaken) << "trial " << trial;
    ASSERT_EQ(hostBytes(step, moves), walk.hostTaken) << "trial " << trial;
  }
  EXPECT_GT(moved, 4 * kTrials);
}

TEST(Memory, WithoutMovesIsTheStepsOwn) {
  Random random(2);
  Step step = anyStep(random, 9, 6);
  EXPECT_EQ(deviceBytes(step, {}), step.bytes);
  EXPECT_EQ(hostBytes(step, {}), std::vector<int64_t>(9));
}

TEST(Memory, NoMovesGoBelowTheLeast) {
  Random random(3);
  int reached = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    Step step = anyStep(random, between(random, 1, 8), between(random, 1, 4));
    auto [least, position] = leastDeviceBytes(step);
    for (int i = 0; i < 5; ++i) {
      std::vector<int64_t> bytes = deviceBytes(step, anyMoves(random, step));
      ASSERT_GE(*std::max_element(bytes.begin(), bytes.end()), least);
      reached += *std::max_element(bytes.begin(), bytes.end()) == least;
    }
    // At the position that sets the least there is what the operator uses, and what never leaves.
    int64_t used = step.bytes[position];
    for (const Value &value : step.values) {
      bool live =
          value.rests || (value.uses.front().position <= position && position <= value.uses.back().position);
      if (live && std::none_of(value.uses.begin(), value.uses.end(),
                               [&](const Use &use) { return use.position == position; }))
        used -= value.bytes;
    }
    ASSERT_EQ(least, used);
  }
  EXPECT_GT(reached, kTrials);
}

/// An activation between the first and the last of four operators of a second each.
Step fourSeconds(int64_t bytes) {
  Step step;
  step.seconds = {1, 1, 1, 1};
  step.values = {{bytes, false, {{0}, {3}}}};
  step.bytes = keepingAll(step);
  return step;
}

TEST(Simulate, WhatFitsBesideAnOperatorCostsNothing) {
  for (int64_t bytes : {1, 50, 100})
    EXPECT_DOUBLE_EQ(simulate(fourSeconds(bytes), {{0, 0, 1, 2, 2}}, {100, 100, 0}), 4);
}

TEST(Simulate, WhatDoesNotFitIsWaitedForInBothDirections) {
  for (int64_t bytes : {100, 150, 400})
    for (double latency : {0.0, 0.25}) {
      double transfer = static_cast<double>(bytes) / 100 + latency;
      EXPECT_DOUBLE_EQ(simulate(fourSeconds(bytes), {{0, 0, 1, 2, 2}}, {100, 100, latency}),
                       4 + 2 * (transfer - 1));
    }
}

TEST(Simulate, OnDemandNothingIsHidden) {
  // The offload is waited for where it starts, and the prefetch.
  EXPECT_DOUBLE_EQ(simulate(fourSeconds(100), {{0, 0, 1, 1, 3}}, {100, 50, 0.5}), 4 + 1.5 + 2.5);
}

TEST(Simulate, DirectionsRunAtOnceAndEachIsOneQueue) {
  // Three variables that operators 0, 1 and 2 change. In the second of operator 3, three go down.
  Step step;
  step.seconds = {1, 1, 1, 1};
  for (int64_t p : {0, 1, 2})
    step.values.push_back({100, true, {{p, true}}});
  step.bytes = keepingAll(step);
  std::vector<Move> moves = {{0, 0, 3, 4, 0}, {1, 0, 3, 4, 0}, {2, 0, 3, 4, 0}};
  // Up: 0.5 s each from the beginning: operator 0 waits for 0.5 s. Down: 1 s each from 3.5 s on.
  EXPECT_DOUBLE_EQ(simulate(step, moves, {100, 200, 0}), 0.5 + 3 + 3);
  // In the order of the list: now operator 0 waits for the third.
  std::swap(moves[0], moves[2]);
  EXPECT_DOUBLE_EQ(simulate(step, moves, {100, 200, 0}), 1.5 + 3 + 3);
  // While operator 1 waits a second for its variable, that of operator 0 goes down.
  std::vector<Move> both = {{0, 0, 1, 2, 0}, {1, 0, 2, 3, 1}};
  EXPECT_DOUBLE_EQ(simulate(step, both, {100, 100, 0}), 1 + 1 + 1 + 3);
}

TEST(Simulate, IsNoFasterThanAnyQueueAndFasterRatesNeverHurt) {
  Random random(4);
  for (int trial = 0; trial < kTrials; ++trial) {
    Step step = anyStep(random, between(random, 1, 12), between(random, 1, 8));
    std::vector<Move> moves = anyMoves(random, step);
    Rates rates{static_cast<double>(between(random, 1, 5)), static_cast<double>(between(random, 1, 5)), 0.5};
    double seconds = simulate(step, moves, rates);
    ASSERT_GE(seconds, largestLoad(step, moves, rates));
    ASSERT_GE(seconds, simulate(step, moves, {rates.bytesDown * 2, rates.bytesUp, rates.latency}));
    ASSERT_GE(seconds, simulate(step, moves, {rates.bytesDown, rates.bytesUp * 2, rates.latency}));
    ASSERT_GE(seconds, simulate(step, moves, {rates.bytesDown, rates.bytesUp, 0}));
    ASSERT_EQ(simulate(step, {}, rates), std::accumulate(step.seconds.begin(), step.seconds.end(), 0.0));
  }
}

} // namespace
