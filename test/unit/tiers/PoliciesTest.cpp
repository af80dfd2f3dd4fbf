// Policies for comparison: plans that are right, what a cache alone loads, and that they are what the search
// is to beat.
#include "passes/Tiers/Policies/Policies.h"
#include "Traces.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>

using namespace tessera::tiers;

namespace {

int64_t peak(const std::vector<int64_t> &bytes) { return *std::max_element(bytes.begin(), bytes.end()); }

constexpr int64_t kChunk = 1000;

/// Turns of a step in which each operator uses one chunk, with `other` bytes beside at each operator of a
/// turn.
Step chunks(const std::vector<int64_t> &order, int turns, const std::vector<int64_t> &other = {}) {
  Step step;
  auto n = static_cast<int64_t>(order.size());
  step.values.resize(*std::max_element(order.begin(), order.end()) + 1);
  for (Value &value : step.values)
    value.bytes = kChunk;
  for (int64_t p = 0; p < n * turns; ++p)
    step.values[order[p % n]].uses.push_back({p});
  std::erase_if(step.values, [](const Value &value) { return value.uses.empty(); });
  step.seconds.resize(n * turns, 1);
  step.bytes = keepingAll(step);
  for (size_t p = 0; p < step.bytes.size() && !other.empty(); ++p)
    step.bytes[p] += other[p % n];
  return step;
}

/// How many chunks are loaded in the third of five turns: those before begin, those behind end.
int64_t loads(std::string_view policy, const std::vector<int64_t> &order, int64_t capacity,
              const std::vector<int64_t> &other = {}) {
  Step step = chunks(order, 5, other);
  std::optional<Plan> plan = planBy(policy, step, {capacity * kChunk}, {1e9, 1e9, 0});
  if (!plan)
    return -1;
  EXPECT_EQ(whyWrong(step, plan->moves), "");
  auto n = static_cast<int64_t>(order.size());
  return std::count_if(plan->moves.begin(), plan->moves.end(),
                       [&](const Move &move) { return 2 * n <= move.prefetch && move.prefetch < 3 * n; });
}

/// A forward order `times` times and its mirror image as often.
std::vector<int64_t> thereAndBack(std::vector<int64_t> forward, int times = 1) {
  std::vector<int64_t> order;
  for (int i = 0; i < times; ++i)
    order.insert(order.end(), forward.begin(), forward.end());
  std::reverse(forward.begin(), forward.end());
  for (int i = 0; i < times; ++i)
    order.insert(order.end(), forward.begin(), forward.end());
  return order;
}

std::vector<int64_t> layers(int64_t count) {
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<int64_t> loadsOf(std::string_view policy, const std::vector<int64_t> &order) {
  return {loads(policy, order, 16), loads(policy, order, 32), loads(policy, order, 48)};
}

using Loads = std::vector<int64_t>; // of room for 16, 32 and 48 of 64 chunks

TEST(Cache, LoadsOfAChain) {
  EXPECT_EQ(loadsOf("lru", thereAndBack(layers(64))), (Loads{96, 64, 32}));
  EXPECT_EQ(loadsOf("belady", thereAndBack(layers(64))), (Loads{96, 64, 32}));
}

TEST(Cache, LoadsOfATiedTable) {
  std::vector<int64_t> forward = layers(64);
  forward.push_back(0);
  EXPECT_EQ(loadsOf("lru", thereAndBack(forward)), (Loads{98, 66, 34}));
  EXPECT_EQ(loadsOf("belady", thereAndBack(forward)), (Loads{96, 64, 32}));
}

TEST(Cache, LoadsOfMicrobatches) {
  EXPECT_EQ(loadsOf("lru", thereAndBack(layers(64), 4)), (Loads{480, 448, 416}));
  EXPECT_EQ(loadsOf("belady", thereAndBack(layers(64), 4)), (Loads{384, 256, 128}));
}

TEST(Cache, LoadsOfSharedLayers) {
  std::vector<int64_t> forward = layers(64), half = layers(32);
  forward.insert(forward.end(), half.begin(), half.end());
  EXPECT_EQ(loadsOf("lru", thereAndBack(forward)), (Loads{160, 128, 96}));
  EXPECT_EQ(loadsOf("belady", thereAndBack(forward)), (Loads{130, 66, 32}));
  EXPECT_EQ(loadsOf("lru", thereAndBack(layers(64), 3)), (Loads{352, 320, 288}));
  EXPECT_EQ(loadsOf("belady", thereAndBack(layers(64), 3)), (Loads{288, 192, 96}));
}

/// What activations leave falls from 60 chunks to 8 in the forward pass and rises again.
TEST(Cache, LoadsUnderTheTide) {
  std::vector<int64_t> other;
  for (int64_t i = 0; i < 64; ++i)
    other.push_back((52 * i + 62) / 63 * kChunk);
  other = thereAndBack(other);
  EXPECT_EQ(loads("lru", thereAndBack(layers(64)), 60, other), 87);
  EXPECT_EQ(loads("belady", thereAndBack(layers(64)), 60, other), 60);
  EXPECT_EQ(loads("belady", thereAndBack(layers(64)), 8), 112);
}

TEST(Cache, FarthestUseNeverLoadsMore) {
  Random random(1);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<int64_t> order(between(random, 3, 60));
    for (int64_t &chunk : order)
      chunk = between(random, 0, between(random, 1, 15));
    int64_t capacity = between(random, 1, 8);
    int64_t farthest = 0, recent = 0;
    Step step = chunks(order, 1);
    for (auto [name, moved] : {std::pair("belady", &farthest), {"lru", &recent}}) {
      std::optional<Plan> plan = planBy(name, step, {capacity * kChunk}, {1e9, 1e9, 0});
      ASSERT_TRUE(plan);
      *moved = plan->bytesUp;
    }
    EXPECT_LE(farthest, recent) << "trial " << trial;
  }
}

class Policies : public testing::TestWithParam<std::string_view> {};
INSTANTIATE_TEST_SUITE_P(All, Policies, testing::ValuesIn(policies()), [](const auto &info) {
  std::string name(info.param);
  std::erase(name, '-');
  return name;
});

TEST_P(Policies, PlansAreWithinTheLimits) {
  Random random(2);
  int found = 0;
  for (int trial = 0; trial < 120; ++trial) {
    Step step = trial % 3 == 0 ? anyStep(random, between(random, 2, 25), between(random, 2, 20))
                               : training(random, {between(random, 2, 12), trial % 2 == 0, trial % 5 == 0});
    if (trial % 3 == 0)
      for (Value &value : step.values)
        value.kind = value.rests ? static_cast<Kind>(between(random, 1, 2)) : Kind::Activation;
    int64_t least = leastDeviceBytes(step).first, all = peak(step.bytes);
    Limits limits{between(random, least, 2 * all)};
    std::optional<Plan> plan = planBy(GetParam(), step, limits, {2, 1, 0.1});
    if (!plan)
      continue;
    ++found;
    ASSERT_EQ(whyWrong(step, plan->moves), "") << "trial " << trial;
    ASSERT_EQ(plan->devicePeak, peak(deviceBytes(step, plan->moves)));
    ASSERT_LE(plan->devicePeak, limits.device);
    ASSERT_EQ(plan->seconds, simulate(step, plan->moves, {2, 1, 0.1}));
    // A rule takes what it needs of the host or is refused.
    EXPECT_FALSE(plan->hostPeak > 0 && GetParam() != "planned" &&
                 planBy(GetParam(), step, {limits.device, plan->hostPeak - 1}, {2, 1, 0.1}));
  }
  EXPECT_GT(found, 20);
}

/// State that rests on the host, and nothing else.
TEST(ZeroOffload, MovesStateAlone) {
  Step step = training(Gpt{});
  std::optional<Plan> plan = planBy("zero-offload", step, {peak(step.bytes)}, {5e10, 5e10, 1e-5});
  ASSERT_TRUE(plan);
  int64_t state = 0;
  for (const Value &value : step.values)
    state += value.kind == Kind::Optimizer ? value.bytes : 0;
  EXPECT_EQ(plan->bytesDown, state);
  EXPECT_EQ(plan->bytesUp, state);
  EXPECT_FALSE(planBy("zero-offload", step, {peak(step.bytes) - state - 1}, {5e10, 5e10, 1e-5}));
}

/// Its room is a part of the device, whatever would fit.
TEST(PatrickStar, LeavesMargins) {
  Step step = training(Gpt{});
  int64_t all = peak(step.bytes);
  std::optional<Plan> tight = planBy("patrickstar", step, {all}, {5e10, 5e10, 1e-5});
  ASSERT_TRUE(tight);
  EXPECT_LE(tight->devicePeak, all * 8 / 10);
  EXPECT_GT(tight->bytesUp, 0);
  std::optional<Plan> loose = planBy("patrickstar", step, {2 * all}, {5e10, 5e10, 1e-5});
  ASSERT_TRUE(loose);
  EXPECT_LT(loose->bytesUp, tight->bytesUp);
}

/// Where there is room for the parameters they stay, and state has what is left.
TEST(Elixir, CachesParametersFirst) {
  Step step = training(Gpt{});
  auto moved = [&](int64_t device, Kind kind) {
    std::optional<Plan> plan = planBy("elixir", step, {device}, {5e10, 5e10, 1e-5});
    EXPECT_TRUE(plan);
    return std::count_if(plan->moves.begin(), plan->moves.end(),
                         [&](const Move &move) { return step.values[move.value].kind == kind; });
  };
  int64_t all = peak(step.bytes);
  EXPECT_EQ(moved(2 * all, Kind::Optimizer), 0);
  EXPECT_GT(moved(all, Kind::Optimizer), 0);
  EXPECT_EQ(moved(all, Kind::Parameter), 0);
}

TEST(Policies, TheSearchIsFaster) {
  Step step = training(Gpt{4, 768, 4096, 4, 256});
  int compared = 0;
  for (int64_t part : {30, 50, 70, 90}) {
    Limits limits{peak(step.bytes) * part / 100};
    std::optional<Plan> planned = choose(step, limits, {5e10, 5e10, 1e-5});
    ASSERT_TRUE(planned);
    for (std::string_view name : policies())
      if (std::optional<Plan> plan = planBy(name, step, limits, {5e10, 5e10, 1e-5})) {
        EXPECT_LE(planned->seconds, plan->seconds) << name << " at " << part;
        ++compared;
      }
  }
  EXPECT_GT(compared, 10);
}

} // namespace
