// Cuts of chains against all cuts there are.
#include "passes/Assign/Balance.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <random>

using namespace tessera;

namespace {

/// Every operator is a layer or not, and has figures of its own.
Chain randomChain(std::mt19937 &random, int64_t n) {
  auto number = [&](double most) { return std::uniform_real_distribution<>(0, most)(random); };
  Chain chain(n);
  for (int64_t i = 0; i < n; ++i) {
    chain.seconds[i + 1] = chain.seconds[i] + number(1);
    chain.variables[i + 1] = chain.variables[i] + number(10);
    chain.activations[i + 1] = chain.activations[i] + number(4);
    chain.layers[i + 1] = chain.layers[i] + (random() % 3 != 0);
    chain.crossing[i] = i ? number(0.1) : 0;
  }
  return chain;
}

struct Cost {
  double seconds = 0, bytes = 0;
};

Cost costOf(const Chain &chain, const std::vector<double> &live, const std::vector<int64_t> &ends) {
  Cost cost;
  int64_t begin = 0;
  for (size_t chunk = 0; chunk < ends.size(); begin = ends[chunk++]) {
    int64_t end = ends[chunk];
    cost.seconds = std::max(cost.seconds, chain.seconds[end] - chain.seconds[begin] + chain.crossing[begin] +
                                              chain.crossing[end]);
    cost.bytes = std::max(cost.bytes, chain.variables[end] - chain.variables[begin] +
                                          live[chunk] * (chain.activations[end] - chain.activations[begin]));
  }
  return cost;
}

/// All cuts into `chunks` with a layer each.
void forEachCut(const Chain &chain, size_t chunks, std::vector<int64_t> &ends, auto &&visit) {
  int64_t n = int64_t(chain.layers.size()) - 1, begin = ends.empty() ? 0 : ends.back();
  bool isLast = ends.size() + 1 == chunks;
  for (int64_t end = isLast ? n : begin + 1; end <= n; ++end) {
    if (chain.layers[end] == chain.layers[begin])
      continue;
    ends.push_back(end);
    if (isLast)
      visit(ends);
    else
      forEachCut(chain, chunks, ends, visit);
    ends.pop_back();
  }
}

TEST(Balance, HasTheSmallestChunksOfThoseAsFastAsCanBe) {
  std::mt19937 random(1);
  int traded = 0;
  for (int trial = 0; trial < 200; ++trial) {
    Chain chain = randomChain(random, 10);
    // Wherever a cut is, no neighbour sends less: every place may be one.
    std::fill(chain.crossing.begin() + 1, chain.crossing.end() - 1, 0.05);
    std::vector<double> live = {3, 2, 1};
    double fastest = 1e9, smallest = 1e9, bytesOfFastest = 0;
    std::vector<int64_t> ends;
    forEachCut(chain, live.size(), ends, [&](const std::vector<int64_t> &cut) {
      Cost cost = costOf(chain, live, cut);
      if (cost.seconds < fastest)
        fastest = cost.seconds, bytesOfFastest = cost.bytes;
    });
    forEachCut(chain, live.size(), ends, [&](const std::vector<int64_t> &cut) {
      Cost cost = costOf(chain, live, cut);
      if (cost.seconds <= (1 + kTolerance) * fastest)
        smallest = std::min(smallest, cost.bytes);
    });
    std::vector<int64_t> found = balance(chain, live);
    if (fastest == 1e9) {
      EXPECT_TRUE(found.empty());
      continue;
    }
    ASSERT_EQ(found.size(), live.size());
    Cost cost = costOf(chain, live, found);
    EXPECT_LE(cost.seconds, (1 + kTolerance) * fastest);
    EXPECT_EQ(cost.bytes, smallest);
    traded += smallest < bytesOfFastest;
  }
  EXPECT_GT(traded, 20);
}

TEST(Balance, CutsWhereLeastIsSent) {
  Chain chain(4);
  chain.seconds = {0, 1, 2, 3, 4};
  chain.layers = {0, 1, 2, 3, 4};
  chain.crossing = {0, 0.5, 0.9, 0.5, 0};
  // In the middle chunks would be equal, but one place earlier or later less is sent.
  std::vector<int64_t> ends = balance(chain, {1, 1});
  EXPECT_TRUE(ends[0] == 1 || ends[0] == 3);
}

TEST(Balance, WithoutToleranceSendsLeastWhateverChunksHold) {
  Chain chain(4);
  chain.seconds = {0, 2, 2, 4, 4};
  chain.layers = {0, 1, 2, 3, 4};
  chain.crossing = {0.25, 0.25, 0.25, 0.25, 0};
  chain.variables = {0, 1, 8, 9, 16};
  // Behind the first operator as quick as behind the second, which has more parameters than all before.
  EXPECT_EQ(balance(chain, {1, 1}), (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(balance(chain, {1, 1}, 0), (std::vector<int64_t>{1, 4}));
}

TEST(Balance, FindsALayerForEveryChunkWherePlacesThatSendLittleDoNotSuffice) {
  Chain chain(3);
  chain.layers = {0, 1, 2, 3};
  chain.crossing = {0, 0.1, 0.2, 0};
  EXPECT_EQ(balance(chain, {1, 1, 1}), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_TRUE(balance(chain, {1, 1, 1, 1}).empty());
}

} // namespace
