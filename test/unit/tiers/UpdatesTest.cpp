// Updates on the host: what the step has of them there, by both judges, and which are chosen.
#include "Traces.h"
#include "passes/Tiers/Draft.h"
#include "passes/Tiers/HostPlaces.h"
#include "passes/Tiers/Policies/Policies.h"
#include "passes/Tiers/Search.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>

using namespace tessera::tiers;

namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();
constexpr Rates kRates{2, 2, 0.25};

/// The steps of `training`, a layer's weight, state, activation and gradient after the other, whose updates
/// may run on the host, taking `seconds` each.
Step withChoice(Random &random, int64_t layers, double seconds) {
  Step step = training(random, {layers, false, false, true});
  for (int layer = 0; layer < static_cast<int>(layers); ++layer) {
    Update update;
    update.parameter = 4 * layer;
    update.state = {4 * layer + 1};
    update.gradient = 4 * layer + 3;
    update.position = step.values[update.gradient].uses.back().position;
    update.ready = update.position; // behind the backward of its layer
    update.seconds = seconds;
    step.updates.push_back(update);
  }
  return step;
}

/// The same, where the forward of some layers only converts their weight, and their backward reads that.
Step withConversions(Random &random, int64_t layers) {
  Step step = withChoice(random, layers, static_cast<double>(between(random, 0, 20)));
  for (int layer = 0; layer < static_cast<int>(layers); ++layer) {
    Value &weight = step.values[4 * layer];
    if (between(random, 0, 2) == 0 || weight.uses.size() < 3)
      continue;
    Value half{weight.bytes / 2, false, {weight.uses[0], weight.uses[1]}};
    weight.uses.erase(weight.uses.begin() + 1);
    for (int64_t p = half.uses[0].position; p <= half.uses[1].position; ++p)
      step.bytes[p] += half.bytes;
    step.conversions.push_back({{half.uses[0].position},
                                {static_cast<int>(step.values.size())},
                                4 * layer,
                                static_cast<double>(between(random, 0, 5))});
    step.values.push_back(half);
  }
  return step;
}

int64_t peak(const std::vector<int64_t> &bytes) { return *std::max_element(bytes.begin(), bytes.end()); }

// Weight, state and gradient of a layer whose forward is at 0, its backward at 1 and its update at 2.
TEST(Updates, OnTheHostStateTakesNothingOfTheDevice) {
  Step step;
  step.seconds = {4, 4, 4, 4};
  step.values = {{10, true, {{0}, {1}, {2, true}}, false, Kind::Parameter},
                 {20, true, {{2, true}}, false, Kind::Optimizer},
                 {8, false, {{1}, {2}}}};
  step.bytes = keepingAll(step);
  step.updates = {{2, 0, 2, {1}, 2, 100}};
  Step host = withUpdates(step, {true});
  EXPECT_EQ(host.bytes, (std::vector<int64_t>{10, 18, 18, 18}));
  EXPECT_EQ(host.seconds, (std::vector<double>{4, 4, 0, 4}));
  // The weight comes up at once and stays up to its last use; the gradient is gone at 3.
  std::vector<Move> moves = {{0, 1, -1, -1, 0}, {2, 0, 2, 3, 4}};
  EXPECT_EQ(deviceBytes(host, moves), (std::vector<int64_t>{10, 18, 8, 0}));
  EXPECT_EQ(hostBytes(host, moves), (std::vector<int64_t>{30, 30, 38, 38}));
  // The weight is there at 5.25; the gradient leaves at 13.25, takes 4.25, and the host the rest.
  EXPECT_DOUBLE_EQ(simulate(host, moves, kRates), 5.25 + 4 + 4 + 4.25 + 100);
  std::optional<Plan> plan = planOf(host, moves, kRates);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->bytesDown, 8);
  EXPECT_EQ(plan->bytesUp, 10);
  EXPECT_EQ(plan->seconds, simulate(host, moves, kRates));
  // A gradient that stays is no plan.
  EXPECT_FALSE(planOf(host, {moves[0]}, kRates));
}

TEST(Updates, TheNormIsWaitedForBehindWhatWentDownBeforeIt) {
  Step step;
  step.seconds = {1, 1, 1, 1};
  step.values = {{1, true, {{0}, {3, true}}, false, Kind::Parameter}, {8, false, {{1}, {3}}}};
  step.bytes = keepingAll(step);
  step.updates = {{3, 0, 1, {}, 3, 10}};
  step.norm = 3;
  Step host = withUpdates(step, {true});
  std::vector<Move> moves = {{0, 0, -1, -1, 0}, {1, 0, 2, 3, 4}};
  // The weight is there at 0.75. The gradient leaves at 2.75 and is down at 7, then the norm at 7.25.
  EXPECT_DOUBLE_EQ(simulate(host, moves, kRates), 7.25 + 10);
}

// As above, where a kernel converts the weight at 0, and what it yields is read at 1.
TEST(Updates, TheHostConvertsWhatItUpdates) {
  Step step;
  step.seconds = {4, 4, 4, 4};
  step.values = {{10, true, {{0}, {2, true}}, false, Kind::Parameter},
                 {20, true, {{2, true}}, false, Kind::Optimizer},
                 {8, false, {{1}, {2}}},
                 {5, false, {{0}, {1}}}};
  step.bytes = keepingAll(step);
  step.updates = {{2, 0, 2, {1}, 1, 100}};
  step.conversions = {{{0}, {3}, 0, 6}};
  Step host = withUpdates(step, {true});
  EXPECT_TRUE(host.conversions[0].onHost);
  EXPECT_EQ(host.bytes, (std::vector<int64_t>{5, 13, 13, 13}));
  EXPECT_EQ(host.seconds, (std::vector<double>{0, 4, 0, 4}));
  // What is converted comes up at once, which waits for the host.
  std::vector<Move> moves = {{3, 0, -1, -1, 0}, {2, 0, 2, 3, 4}};
  EXPECT_EQ(deviceBytes(host, moves), (std::vector<int64_t>{5, 13, 8, 0}));
  // The weight and its state, the gradient from 2 on, and what is converted up to its use.
  EXPECT_EQ(hostBytes(host, moves), (std::vector<int64_t>{35, 35, 38, 38}));
  // It is there at 6 + 2.75; the gradient leaves at 12.75, takes 4.25, and the host the rest.
  EXPECT_DOUBLE_EQ(simulate(host, moves, kRates), 6 + 2.75 + 4 + 4.25 + 100);
  std::optional<Plan> plan = planOf(host, moves, kRates);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->bytesUp, 5);
  // Whatever reads the weight itself has it on the device, which then converts it.
  step.values[0].uses = {{0}, {1}, {2, true}};
  EXPECT_FALSE(withUpdates(step, {true}).conversions[0].onHost);
}

TEST(Updates, TwoConversionsOfOneWeightAreOneOnTheHost) {
  Step step;
  step.seconds = {1, 1, 1, 1, 1, 1};
  step.values = {{10, true, {{0}, {3}, {5, true}}, false, Kind::Parameter},
                 {8, false, {{4}, {5}}},
                 {5, false, {{0}, {1}}},
                 {5, false, {{3}, {4}}}};
  step.bytes = keepingAll(step);
  step.updates = {{5, 0, 1, {}, 4, 1}};
  step.conversions = {{{0, 3}, {2, 3}, 0, 1}};
  Step host = withUpdates(step, {true});
  EXPECT_EQ(host.bytes, (std::vector<int64_t>{5, 5, 5, 5, 13, 13}));
  std::vector<Move> moves = {{2, 0, -1, -1, 4}, {2, 1, -1, -1, 1}, {1, 0, 5, 6, 6}};
  EXPECT_EQ(deviceBytes(host, moves), (std::vector<int64_t>{0, 5, 0, 0, 13, 8}));
  EXPECT_EQ(hostBytes(host, moves), (std::vector<int64_t>{15, 15, 15, 15, 15, 18}));
  EXPECT_EQ(leastDeviceBytes(host), (std::pair<int64_t, int64_t>{13, 4}));
  ASSERT_TRUE(planOf(host, moves, kRates));
}

// What a kernel converts before a loop, whose turns read it: it is there throughout, or comes up in each.
TEST(Updates, TheHostConvertsForALoop) {
  Step step;
  step.loop = {1, 5, 10};
  step.seconds = {1, 0, 10, 10, 10, 0, 1};
  step.values = {{10, true, {{0}, {6, true}}, false, Kind::Parameter},
                 {20, true, {{6, true}}, false, Kind::Optimizer},
                 {8, false, {{5}, {6}}},
                 {5, false, {{0}, {1}, {5}}}};
  step.values[3].inLoop = {{2}, {4}};
  step.values[3].loopGap = 1;
  step.bytes = keepingAll(step);
  step.updates = {{6, 0, 2, {1}, 1, 100}};
  step.conversions = {{{0}, {3}, 0, 6}};
  Step host = withUpdates(step, {true});
  ASSERT_TRUE(host.conversions[0].onHost);
  EXPECT_EQ(host.bytes, (std::vector<int64_t>{5, 5, 5, 5, 5, 13, 13}));
  EXPECT_EQ(host.updates[0].ready, 6) << "it is read in the loop";
  std::vector<Move> moves = {{3, 1, -1, -1, 1}, {2, 0, 6, 7, 7}};
  EXPECT_EQ(deviceBytes(host, moves), (std::vector<int64_t>{0, 5, 5, 5, 5, 13, 8}));
  EXPECT_EQ(hostBytes(host, moves), (std::vector<int64_t>{35, 35, 30, 30, 30, 30, 38}));
  // It is there at 6 + 2.75; the turns take 30, the gradient 4.25, and the host the rest.
  EXPECT_DOUBLE_EQ(simulate(host, moves, kRates), 6 + 2.75 + 30 + 4.25 + 100);

  Step turns = withTurns(host, {false, false, false, true});
  EXPECT_EQ(turns.bytes, withUpdates(withTurns(step, {false, false, false, true}), {true}).bytes);
  moves[0].prefetch = 2;
  EXPECT_EQ(deviceBytes(turns, moves), (std::vector<int64_t>{0, 0, 5, 5, 5, 8, 8}));
  EXPECT_EQ(hostBytes(turns, moves), (std::vector<int64_t>{35, 35, 35, 35, 35, 35, 38}));
  // The loop begins at 6, and 27.5 of copies are before the first use of each turn.
  EXPECT_DOUBLE_EQ(simulate(turns, moves, kRates), 6 + 27.5 + 30 + 4.25 + 100);
  std::optional<Plan> plan = planOf(turns, moves, kRates);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->bytesUp, 50);
  EXPECT_EQ(timeline(turns, *plan, kRates), (std::vector<double>{0, 0, 6, 43.5, 53.5, 63.5, 63.5, 63.5}));
  // The host makes it before the loop, and the update is no earlier than behind it.
  HostPlaces places = closePlaces(turns, plan->moves, kRates);
  EXPECT_EQ(places.conversions, (std::vector<int64_t>{0}));
  EXPECT_EQ(places.begins, (std::vector<int64_t>{7}));
  EXPECT_EQ(places.ends, (std::vector<int64_t>{7}));
}

TEST(Updates, DraftsFollowChangesOfStepsWithUpdates) {
  Random random(3);
  int changes = 0, converted = 0;
  for (int trial = 0; trial < 60; ++trial) {
    Step step = withConversions(random, between(random, 1, 4));
    step.norm = between(random, -1, static_cast<int64_t>(step.seconds.size()) - 1);
    std::vector<bool> which;
    for (Update &update : step.updates) {
      update.ready = std::max(update.ready, step.norm);
      which.push_back(between(random, 0, 2) > 0);
    }
    Step host = withUpdates(step, which);
    for (const Conversion &conversion : host.conversions)
      converted += conversion.onHost;
    Problem problem(host, {between(random, 5, 60), between(random, 5, 60)}, kRates);
    Draft draft(problem);
    move(draft, problem.always);
    draft.keep();
    for (int i = 0; i < 40 && !problem.gaps.empty(); ++i) {
      int g = static_cast<int>(between(random, 0, static_cast<int64_t>(problem.gaps.size()) - 1));
      const Gap &gap = problem.gaps[g];
      Away away;
      if (between(random, 0, 2) > 0) {
        away.offload = between(random, gap.use + 1, gap.end);
        away.gone = between(random, away.offload, gap.end);
        away.prefetch = gap.round ? between(random, 0, gap.next) : between(random, away.gone, gap.next);
      }
      draft.change(g, away);
      std::vector<Move> moves = draft.moves();
      ASSERT_EQ(whyWrong(host, moves), "");
      ASSERT_TRUE(planOf(host, moves, kRates));
      ASSERT_EQ(draft.device().all(), deviceBytes(host, moves));
      int64_t above = 0;
      for (int64_t bytes : deviceBytes(host, moves))
        above += std::max<int64_t>(0, bytes - problem.limits.device);
      for (int64_t bytes : hostBytes(host, moves))
        above += std::max<int64_t>(0, bytes - problem.limits.host);
      ASSERT_EQ(draft.excess(), above);
      ASSERT_EQ(draft.simulate(kForever), simulate(host, moves, kRates));
      between(random, 0, 1) ? draft.keep() : draft.undo();
      ++changes;
    }
  }
  EXPECT_GT(changes, 2000);
  EXPECT_GT(converted, 20);
}

TEST(Updates, AreChosenWhereTheHostIsFast) {
  int faster = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Random random(seed);
    Step step = withChoice(random, 4, 0.5);
    auto alone = std::accumulate(step.seconds.begin(), step.seconds.end(), 0.0);
    Limits limits{leastDeviceBytes(step).first + 10};
    std::optional<Plan> onDevice = choose(step, limits, kRates);
    ASSERT_TRUE(onDevice);
    std::vector<bool> chosen = chooseUpdates(step, limits, kRates).onHost;
    std::optional<Plan> plan = choose(withUpdates(step, chosen), limits, kRates);
    ASSERT_TRUE(plan);
    EXPECT_LE(plan->seconds, onDevice->seconds * 1.001);
    EXPECT_LE(plan->devicePeak, limits.device);
    faster += plan->seconds < onDevice->seconds;
    // Not by a host that takes a hundred times as long as the step.
    for (Update &update : step.updates)
      update.seconds = 100 * alone;
    EXPECT_EQ(chooseUpdates(step, limits, kRates).onHost, std::vector<bool>(4));
    // But what is decided stays so.
    step.updates[2].decided = step.updates[2].onHost = true;
    EXPECT_EQ(chooseUpdates(step, limits, kRates).onHost, (std::vector<bool>{false, false, true, false}));
  }
  EXPECT_GT(faster, 6);
}

// Three layers' states of which the device has room for one. The host takes too long for the update whose
// gradient is there first, not for those behind it.
TEST(Updates, OneThatTakesTheHostTooLongIsLeftOut) {
  Step step;
  step.seconds.assign(10, 1);
  for (int layer = 0; layer < 3; ++layer) {
    int64_t backward = 2 + 2 * layer, update = backward + 1;
    int first = 3 * layer;
    step.values.push_back({2, true, {{backward}, {update, true}}, false, Kind::Parameter});
    step.values.push_back({20, true, {{update, true}}, false, Kind::Optimizer});
    step.values.push_back({2, false, {{backward}, {update}}});
    step.updates.push_back({update, first, first + 2, {first + 1}, update, layer == 0 ? 1000.0 : 1.0});
  }
  step.bytes = keepingAll(step);
  Limits limits{26};
  UpdateChoice choice = chooseUpdates(step, limits, kRates);
  EXPECT_EQ(choice.onHost, (std::vector<bool>{false, true, true}));
  std::optional<Plan> onDevice = choose(step, limits, kRates);
  ASSERT_TRUE(onDevice);
  EXPECT_LT(choice.seconds, onDevice->seconds / 2);
  // By a deadline that is given no other one is tried; none on the host is, where that is slower.
  EXPECT_EQ(chooseUpdates(step, limits, kRates, kForever, choice.deadline).onHost, choice.onHost);
  EXPECT_EQ(chooseUpdates(step, limits, kRates, kForever, 5000).onHost, std::vector<bool>(3));
  // Of the device alone the step takes longer than that, and no choice makes it shorter than computing.
  EXPECT_EQ(leastComputing(step), 7);
  EXPECT_EQ(chooseUpdates(step, limits, kRates, 7).onHost, std::vector<bool>(3));
  EXPECT_EQ(chooseUpdates(step, limits, kRates, 7).seconds, kForever);
}

TEST(Updates, ZeroOffloadHasAllOfThemOnTheHost) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Random random(seed);
    Step step = withChoice(random, 4, 2);
    Step host = withUpdates(step, std::vector<bool>(4, true));
    Limits limits{peak(step.bytes)};
    std::optional<Plan> plan = planBy("zero-offload", host, limits, kRates);
    ASSERT_TRUE(plan);
    EXPECT_EQ(whyWrong(host, plan->moves), "");
    for (const Move &move : plan->moves)
      EXPECT_NE(host.values[move.value].kind, Kind::Optimizer);
  }
}

/// The time of a step whose host starts what it does at these places, and is waited for there.
double secondsWith(const HostPlaces &places, const Step &step, const std::vector<Move> &moves) {
  auto n = static_cast<int64_t>(step.seconds.size());
  double now = 0, host = 0, down = 0, up = 0;
  std::vector<double> downEnd(moves.size()), upEnd(moves.size()), made(step.values.size()),
      done(step.updates.size());
  auto transfer = [](double &way, double now, int64_t bytes) {
    return way = std::max(way, now) + kRates.latency + static_cast<double>(bytes) / kRates.bytesUp;
  };
  for (int64_t p = 0; p <= n; ++p) {
    for (size_t u = 0; u < done.size(); ++u)
      if (p < n && places.ends[u] == p)
        now = std::max(now, done[u]);
    for (size_t i = 0; i < moves.size(); ++i)
      if (moves[i].offload == p)
        downEnd[i] = transfer(down, now, step.values[moves[i].value].bytes);
    if (p == step.norm && !places.queue.empty())
      now = transfer(down, now, 0);
    for (size_t i = 0; i < moves.size(); ++i)
      if (moves[i].offload >= 0 && moves[i].gone == p)
        now = std::max(now, downEnd[i]);
    std::vector<std::pair<double, size_t>> order;
    for (size_t c = 0; c < step.conversions.size(); ++c)
      if (places.conversions[c] == p)
        order.push_back({step.values[step.conversions[c].results.front()].made, c});
    std::sort(order.begin(), order.end());
    for (auto [end, c] : order)
      made[step.conversions[c].results.front()] = host = std::max(host, now) + step.conversions[c].seconds;
    for (int u : places.queue)
      if (places.begins[u] == p)
        done[u] = host = std::max(host, now) + step.updates[u].seconds;
    for (size_t i = 0; i < moves.size(); ++i)
      if (moves[i].prefetch == p && !step.values[moves[i].value].sinks(moves[i].gap)) {
        now = std::max(now, made[moves[i].value]);
        upEnd[i] = transfer(up, now, step.values[moves[i].value].bytes);
      }
    for (size_t i = 0; i < moves.size(); ++i) {
      const std::vector<Use> &uses = step.values[moves[i].value].uses;
      if (uses[(moves[i].gap + 1) % uses.size()].position == p)
        now = std::max(now, upEnd[i]);
    }
    now += p < n ? step.seconds[p] : 0;
  }
  return std::max(now, host);
}

TEST(HostPlaces, AreNoSlowerWhenClose) {
  Random random(11);
  int64_t later = 0, sooner = 0, converted = 0;
  for (int trial = 0; trial < 200; ++trial) {
    Step step = withConversions(random, between(random, 2, 5));
    step.norm = trial % 2 ? -1 : between(random, 1, static_cast<int64_t>(step.seconds.size()) - 1);
    std::vector<bool> which;
    for (Update &update : step.updates) {
      update.ready = std::max(update.ready, step.norm);
      which.push_back(between(random, 0, 3) > 0);
    }
    Step host = withUpdates(step, which);
    auto n = static_cast<int64_t>(host.seconds.size());
    std::optional<Plan> plan = choose(host, {leastDeviceBytes(host).first + 5}, kRates, 0.02);
    ASSERT_TRUE(plan);
    HostPlaces wide = widePlaces(host, plan->moves), close = closePlaces(host, plan->moves, kRates);
    EXPECT_NEAR(secondsWith(wide, host, plan->moves), plan->seconds, 1e-9);
    EXPECT_LE(secondsWith(close, host, plan->moves), plan->seconds + 1e-9);
    EXPECT_EQ(close.queue, wide.queue);
    int64_t before = 0;
    for (int update : close.queue) {
      EXPECT_LE(before, close.begins[update]);
      EXPECT_LE(wide.begins[update], close.begins[update]);
      EXPECT_LE(std::min(close.begins[update] + 1, n), close.ends[update]);
      before = close.begins[update];
      later += wide.begins[update] < close.begins[update];
      sooner += close.ends[update] < n;
    }
    for (int64_t start : close.conversions)
      converted += start > 0;
  }
  EXPECT_GT(later, 50);
  EXPECT_GT(sooner, 50);
  EXPECT_GT(converted, 50);
}

} // namespace
