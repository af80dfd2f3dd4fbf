// Loops: one turn stands for all, by both judges; what is from outside of a loop and comes up in each turn;
// and that no transfer crosses the beginning or the end of a turn.
#include "Traces.h"
#include "passes/Tiers/HostPlaces.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <iterator>
#include <map>

using namespace tessera::tiers;

namespace {

constexpr Rates kRates{2, 2, 0.25};
constexpr int64_t kBefore = 3, kBody = 12, kBehind = 4; // operators

/// Values that are made in the loop, and one that is not (the last): used before it and behind it.
Step looped(Random &random, int64_t times) {
  Step step;
  step.loop = {kBefore, kBefore + kBody + 1, times};
  for (int64_t p = 0; p < kBefore + kBody + 2 + kBehind; ++p) {
    bool isEdge = p == step.loop.begin || p == step.loop.end;
    step.seconds.push_back(isEdge ? 0 : static_cast<double>(between(random, 1, 8) * step.loop.timesAt(p)));
  }
  for (int i = 0; i < 4; ++i) {
    int64_t first = between(random, step.loop.begin + 1, step.loop.end - 4);
    step.values.push_back(
        {between(random, 1, 9), false, {{first}, {between(random, first + 2, step.loop.end - 1)}}});
  }
  step.values.push_back({5, false, {{1}, {step.loop.end + 2}}});
  step.bytes = keepingAll(step);
  return step;
}

/// The operators of a turn one after the other, so many times; moves of what is made in it each time.
std::pair<Step, std::vector<Move>> unrolled(const Step &step, const std::vector<Move> &moves) {
  Step all;
  std::vector<Move> allMoves;
  int64_t turn = kBody + 1, more = (step.loop.times - 1) * turn; // with what ends it
  auto at = [&](int64_t p, int64_t number) {
    return p > step.loop.end ? p + more : step.loop.has(p) ? p + number * turn : p;
  };
  all.seconds.resize(step.seconds.size() + more);
  for (size_t p = 0; p < step.seconds.size(); ++p)
    for (int64_t number = 0; number < step.loop.timesAt(p); ++number)
      all.seconds[at(p, number)] = step.seconds[p] / static_cast<double>(step.loop.timesAt(p));
  std::map<std::pair<int, int64_t>, int> values; // by value and turn
  for (size_t v = 0; v < step.values.size(); ++v)
    for (int64_t number = 0; number < step.loop.timesAt(step.values[v].uses[0].position); ++number) {
      values[{static_cast<int>(v), number}] = static_cast<int>(all.values.size());
      all.values.push_back(step.values[v]);
      for (Use &use : all.values.back().uses)
        use.position = at(use.position, number);
    }
  for (int64_t number = 0; number < step.loop.times; ++number)
    for (const Move &move : moves)
      allMoves.push_back({values.at({move.value, number}), move.gap, at(move.offload, number),
                          at(move.gone, number), at(move.prefetch, number)});
  all.bytes = keepingAll(all);
  return {all, allMoves};
}

bool isInLoop(const Step &step, int64_t position) {
  return step.loop.has(position) && position < step.loop.end;
}

/// An offload is where the use before its gap is, a prefetch where that behind it is.
void expectWithinTurns(const Step &step, const Plan &plan) {
  for (const Move &move : plan.moves) {
    const std::vector<Use> &uses = step.values[move.value].uses;
    bool down = isInLoop(step, uses[move.gap].position);
    bool up = isInLoop(step, uses[(move.gap + 1) % uses.size()].position);
    if (move.offload >= 0) {
      EXPECT_EQ(step.loop.has(move.offload), down);
      EXPECT_EQ(step.loop.has(move.gone), down);
    }
    EXPECT_EQ(step.loop.has(move.prefetch), up);
  }
}

TEST(Turns, OneStandsForAll) {
  Random random(7);
  for (int trial = 0; trial < 300; ++trial) {
    Step step = looped(random, between(random, 2, 5));
    int64_t least = leastDeviceBytes(step).first,
            most = *std::max_element(step.bytes.begin(), step.bytes.end());
    std::optional<Plan> plan = choose(step, {between(random, least, most)}, kRates, 0.01);
    ASSERT_TRUE(plan);
    expectWithinTurns(step, *plan);
    // Where nothing from outside is under way meanwhile, all turns take as long as one.
    std::vector<Move> inTurns;
    std::copy_if(plan->moves.begin(), plan->moves.end(), std::back_inserter(inTurns),
                 [&](const Move &move) { return step.loop.has(move.prefetch); });
    auto [all, moves] = unrolled(step, inTurns);
    EXPECT_NEAR(simulate(step, inTurns, kRates), simulate(all, moves, kRates), 1e-9);
    auto peak = [](const std::vector<int64_t> &bytes) {
      return *std::max_element(bytes.begin(), bytes.end());
    };
    EXPECT_EQ(peak(deviceBytes(step, inTurns)), peak(deviceBytes(all, moves)));
    EXPECT_EQ(peak(hostBytes(step, inTurns)), peak(hostBytes(all, moves)));
    EXPECT_EQ(judge(step, inTurns, kRates).bytesUp, judge(all, moves, kRates).bytesUp);
    EXPECT_EQ(judge(step, inTurns, kRates).bytesDown, judge(all, moves, kRates).bytesDown);
  }
}

// A weight is read at 2 and 4 of a loop from 1 to 5 and updated at 6; something is made at 0 for the loop.
Step weighted() {
  Step step;
  step.loop = {1, 5, 10};
  step.seconds = {1, 0, 10, 10, 10, 0, 1, 1};
  step.values = {{6, true, {{1}, {5}, {6, true}}, false, Kind::Parameter}, {4, false, {{0}, {1}, {5}}}};
  step.values[0].inLoop = {{2}, {4}};
  step.values[0].loopGap = 0;
  step.values[1].inLoop = {{3}};
  step.values[1].loopGap = 1;
  step.bytes = keepingAll(step);
  return step;
}

TEST(Turns, WhatIsFromOutsideComesUpInEach) {
  Step step = weighted();
  EXPECT_EQ(step.bytes, (std::vector<int64_t>{10, 10, 10, 10, 10, 10, 6, 6}));
  EXPECT_EQ(leastDeviceBytes(step).first, 10) << "it is there throughout the loop";
  Step turns = withTurns(step, {true, true});
  EXPECT_EQ(leastDeviceBytes(turns), (std::pair<int64_t, int64_t>{6, 2}));
  EXPECT_EQ(turns.bytes, (std::vector<int64_t>{10, 10, 10, 10, 6, 6, 6, 6}));
  std::optional<Plan> plan = choose(turns, {6}, kRates);
  ASSERT_TRUE(plan);
  expectWithinTurns(turns, *plan);
  EXPECT_LE(plan->devicePeak, 6);
  // The weight twice a turn and once for its update, which writes it; the other one once a turn.
  EXPECT_EQ(plan->bytesUp, 10 * (2 * 6 + 4) + 6);
  EXPECT_EQ(plan->bytesDown, 4 + 6);
  EXPECT_EQ(hostBytes(turns, plan->moves), (std::vector<int64_t>{6, 10, 10, 10, 10, 10, 6, 6}));
  std::optional<Plan> same = planOf(turns, plan->moves, kRates);
  ASSERT_TRUE(same);
  EXPECT_EQ(same->moves, plan->moves);
  // A transfer of a turn that is not in it is none.
  std::vector<Move> moves = plan->moves;
  for (Move &move : moves)
    if (move.value == 1)
      move.prefetch = 1;
  EXPECT_FALSE(planOf(turns, moves, kRates));
}

// What a loop from 1 to 4 adds up at 3, read behind it at 5 and by an update at 6.
Step summed() {
  Step step;
  step.loop = {1, 4, 10};
  step.seconds = {1, 0, 10, 10, 0, 1, 1};
  step.values = {{6, false, {{1}, {4}, {5}, {6}}},
                 {10, true, {{0}, {6, true}}, false, Kind::Parameter},
                 {20, true, {{6, true}}, false, Kind::Optimizer}};
  step.values[0].inLoop = {{3, true}};
  step.values[0].loopGap = 0;
  step.values[0].zeros = 0;
  step.conversions = {{{}, {0}, -1, 3}};
  step.updates = {{6, 1, 0, {2}, 1, 100}};
  step.bytes = keepingAll(step);
  return step;
}

TEST(Turns, SumsGoUpAndDownInEach) {
  Step step = summed();
  EXPECT_EQ(step.bytes, (std::vector<int64_t>{30, 36, 36, 36, 36, 36, 36}));
  Step turns = withTurns(step, {true, false, false});
  EXPECT_TRUE(turns.conversions[0].onHost);
  EXPECT_EQ(turns.bytes, (std::vector<int64_t>{36, 36, 36, 36, 36, 36, 36}));
  std::vector<Move> moves = {{0, 2, -1, -1, 2}, {0, 0, 4, 4, 5}};
  EXPECT_EQ(deviceBytes(turns, moves), (std::vector<int64_t>{30, 30, 36, 36, 30, 36, 36}));
  // Zeros are there from the beginning, for the loop waits for all that the host makes.
  EXPECT_EQ(hostBytes(turns, moves), (std::vector<int64_t>{6, 6, 6, 6, 6, 6, 0}));
  // The loop begins at 3; each of ten turns brings it up, adds and takes it down, and once it comes up
  // behind.
  EXPECT_DOUBLE_EQ(simulate(turns, moves, kRates), 3 + 32.5 + 10 + 32.5 + 3.25 + 2);
  std::optional<Plan> plan = planOf(turns, moves, kRates);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->bytesUp, 66);
  EXPECT_EQ(plan->bytesDown, 60);
  EXPECT_FALSE(planOf(turns, {moves[0]}, kRates)) << "a turn ends with it below";
  EXPECT_FALSE(planOf(turns, {moves[0], {0, 0, 5, 5, 5}}, kRates)) << "it goes down in the turn";
  HostPlaces places = closePlaces(turns, plan->moves, kRates);
  EXPECT_EQ(places.conversions, (std::vector<int64_t>{0}));
}

// Sums that updates on the host read are there when the loop ends.
TEST(Turns, SumsSinkIntoUpdates) {
  Step step = summed();
  Step host = withUpdates(withTurns(step, {true, false, false}), {true});
  EXPECT_EQ(host.bytes, withTurns(withUpdates(step, {true}), {true, false, false}).bytes);
  EXPECT_EQ(host.bytes, (std::vector<int64_t>{16, 16, 16, 16, 16, 16, 16}));
  Step other = withTurns(withUpdates(step, {true}), {true, false, false});
  for (const Step &each : {host, other}) {
    std::optional<Plan> plan = choose(each, {16}, kRates);
    ASSERT_TRUE(plan);
    expectWithinTurns(each, *plan);
    EXPECT_LE(plan->devicePeak, 16);
    EXPECT_EQ(plan->bytesDown, 60) << "nothing goes down again for the update";
    // It begins behind the loop, when the number is known that 5 makes.
    HostPlaces places = widePlaces(each, plan->moves);
    EXPECT_EQ(places.begins, (std::vector<int64_t>{6}));
  }
}

// They are the last to go: each turn moves them twice.
TEST(Turns, SumsAreTheLastToGo) {
  Step step = summed();
  step.updates.clear();
  step.values.resize(1);
  step.values.push_back({4, false, {{0}, {1}, {4}}}); // read at 2
  step.values.back().inLoop = {{2}};
  step.values.back().loopGap = 1;
  step.values.push_back({2, false, {{3}}});
  step.bytes = keepingAll(step);
  EXPECT_EQ(chooseTurns(step, {10}, kRates), (std::vector<bool>{false, true, false}));
  EXPECT_EQ(chooseTurns(step, {8}, kRates), (std::vector<bool>{true, true, false}));
}

TEST(Turns, AsFewAsMakeTheStepFast) {
  Step step = weighted();
  EXPECT_EQ(chooseTurns(step, {10}, kRates), (std::vector<bool>{false, false})) << "it fits";
  EXPECT_EQ(chooseTurns(step, {6}, kRates), (std::vector<bool>{true, true}));
  EXPECT_EQ(allTurns(step), (std::vector<bool>{true, true}));
  step.values[1].decided = true;
  EXPECT_EQ(allTurns(step), (std::vector<bool>{true, false}));
}

} // namespace
