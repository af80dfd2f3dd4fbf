// Where a forward is cut: by hand, and against all ways there are.
#include "passes/Recompute/Cuts.h"
#include <algorithm>
#include <cstdint>
#include <gtest/gtest.h>
#include <random>

using namespace tessera::recompute;

namespace {

/// An operator with one value that the next one reads.
Operator chained(int64_t position, int64_t bytes, bool late) { return {{{bytes, position + 1, late}}}; }

/// Blocks of a wide value that the backward reads and a narrow one that leads to the next block.
std::vector<Operator> blocks(int64_t count, int64_t wide, int64_t narrow) {
  std::vector<Operator> forward;
  for (int64_t i = 0; i < count; ++i) {
    forward.push_back(chained(2 * i, wide, true));
    forward.push_back(chained(2 * i + 1, narrow, false));
  }
  forward.back().values[0].lastForward = 2 * count - 1;
  return forward;
}

/// What crosses the cuts, each value once, and the largest part: counted value by value.
Cuts counted(const std::vector<Operator> &forward, const std::vector<int64_t> &positions) {
  Cuts cuts{positions, 0, 0};
  int64_t begin = 0;
  std::vector<int64_t> ends = positions;
  ends.push_back(static_cast<int64_t>(forward.size()));
  for (int64_t end : ends) {
    int64_t used = 0;
    for (int64_t p = begin; p < end; ++p)
      for (const Value &value : forward[p].values)
        if (value.lastForward >= end)
          cuts.kept += value.bytes;
        else if (value.late && forward[p].repeatable)
          used += value.bytes;
    cuts.largest = std::max(cuts.largest, used);
    begin = end;
  }
  return cuts;
}

TEST(Cuts, KeepBlocksInputs) {
  Cuts cuts = chooseCuts(blocks(4, 100, 1));
  EXPECT_EQ(cuts.positions, (std::vector<int64_t>{2, 4, 6}));
  EXPECT_EQ(cuts.kept, 3);
  EXPECT_EQ(cuts.largest, 100);
}

/// Where what is kept is a fourth of a block, parts of two blocks need least: 2 * 100 + 4 * 25 of ten blocks.
TEST(Cuts, WeighsWhatIsKeptAgainstTheLargestPart) {
  Cuts cuts = chooseCuts(blocks(10, 100, 25));
  EXPECT_EQ(cuts.positions, (std::vector<int64_t>{4, 8, 12, 16}));
  EXPECT_EQ(cuts.kept + cuts.largest, 300);
}

/// More blocks than places to cut at: these are everywhere, not all of them at the beginning.
TEST(Cuts, OfManyBlocksAreSpread) {
  Cuts cuts = chooseCuts(blocks(600, 100, 1));
  EXPECT_GT(cuts.positions.size(), 200u);
  EXPECT_LE(cuts.largest, 300);
}

TEST(Cuts, NoneWhereNothingIsSaved) {
  EXPECT_TRUE(chooseCuts({}).positions.empty());
  EXPECT_TRUE(chooseCuts({chained(0, 10, true)}).positions.empty());
  EXPECT_TRUE(chooseCuts(blocks(5, 0, 7)).positions.empty());
  EXPECT_TRUE(chooseCuts(blocks(2, 10, 20)).positions.empty());
}

/// Never worse than none, as counted, and each is what it says of itself.
TEST(Cuts, AreWhatTheySay) {
  std::mt19937 random(1);
  auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  for (int trial = 0; trial < 500; ++trial) {
    int64_t n = draw(1, 40);
    std::vector<Operator> forward(n);
    for (int64_t p = 0; p < n; ++p) {
      forward[p].repeatable = draw(0, 4) > 0;
      for (int64_t v = draw(0, 2); v > 0; --v)
        forward[p].values.push_back({draw(0, 50), std::min(n - 1, p + draw(0, 6)), draw(0, 1) == 1});
    }
    Cuts cuts = chooseCuts(forward), again = counted(forward, cuts.positions);
    EXPECT_EQ(cuts.kept, again.kept);
    EXPECT_EQ(cuts.largest, again.largest);
    EXPECT_LE(cuts.kept + cuts.largest, counted(forward, {}).largest);
    EXPECT_TRUE(std::is_sorted(cuts.positions.begin(), cuts.positions.end()));
  }
}

/// A chain of wide and narrow values, all cuts tried: at most the step of the limit worse.
TEST(Cuts, NearlyTheBestOfAllWays) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 200; ++trial) {
    auto draw = [&](int most) { return std::uniform_int_distribution<int64_t>(1, most)(random); };
    std::vector<Operator> forward;
    for (int64_t i = 0; i < 8; ++i) {
      forward.push_back(chained(2 * i, 20 + draw(100), true));
      forward.push_back(chained(2 * i + 1, draw(20), false));
    }
    forward.back().values[0].lastForward = 15;
    Cuts cuts = chooseCuts(forward);
    int64_t best = INT64_MAX;
    for (int mask = 0; mask < 128; ++mask) {
      std::vector<int64_t> positions;
      for (int64_t i = 0; i < 7; ++i)
        if (mask >> i & 1)
          positions.push_back(2 * i + 2);
      Cuts other = counted(forward, positions);
      best = std::min(best, other.kept + other.largest);
    }
    EXPECT_LE(static_cast<double>(cuts.kept + cuts.largest), 1.18 * static_cast<double>(best));
  }
}

TEST(Repeated, AllThatIsNotKept) {
  std::vector<Operator> forward = blocks(3, 100, 1);
  forward[2].repeatable = false;
  Cuts cuts{{2, 4}, 0, 0};
  EXPECT_EQ(repeated(forward, cuts, 2, 0), (std::vector<bool>{true, false, false, false, false, false}));
  forward[2].repeatable = true;
  EXPECT_EQ(repeated(forward, cuts, 2, 0), (std::vector<bool>{true, false, true, false, false, false}));
  EXPECT_EQ(repeated(forward, cuts, 1, 0), (std::vector<bool>{true, false, false, false, false, false}));
  EXPECT_EQ(repeated(forward, cuts, 9, 0), repeated(forward, cuts, 2, 0));
}

TEST(Repeated, UpToAPrice) {
  std::vector<Operator> forward = blocks(3, 100, 1);
  forward[0].seconds = 5;
  forward[2].seconds = 1;
  Cuts cuts{{2, 4}, 0, 0};
  EXPECT_EQ(repeated(forward, cuts, 2, 0.01), (std::vector<bool>{false, false, true, false, false, false}));
  EXPECT_EQ(repeated(forward, cuts, 2, 0.05), (std::vector<bool>{true, false, true, false, false, false}));
}

/// One second of ten is cheap, four seconds are dearer, five the dearest: the levels part where the shares
/// do.
TEST(PriceLevels, PartTheTimeOfAll) {
  auto priced = [](double seconds, int64_t bytes) { return Operator{{{bytes, 0, true}}, true, seconds}; };
  EXPECT_EQ(priceLevels({priced(4, 40), priced(1, 100), priced(5, 10)}),
            (std::vector<double>{0.01, 0.1, 0.5}));
  EXPECT_EQ(priceLevels({priced(5, 10), priced(5, 10)}), (std::vector<double>{0.5}));
  EXPECT_TRUE(priceLevels({}).empty());
}

} // namespace
