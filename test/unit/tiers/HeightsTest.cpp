// Bytes by position in blocks, against a plain list of them.
#include "passes/Tiers/Heights.h"
#include "Traces.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <vector>

using namespace tessera::tiers;

namespace {

int64_t firstAbove(const std::vector<int64_t> &bytes, Range range, int64_t limit) {
  for (int64_t p = range.begin; p < range.end; ++p)
    if (bytes[p] > limit)
      return p;
  return -1;
}

TEST(Heights, AreAsAddedUp) {
  Random random(1);
  int found = 0;
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<int64_t> bytes(between(random, 1, 5 * Heights::kBlock));
    for (int64_t &each : bytes)
      each = between(random, -100, 100);
    auto n = static_cast<int64_t>(bytes.size());
    Heights heights(bytes);
    for (int i = 0; i < 40; ++i) {
      Range range{between(random, 0, n), between(random, 0, n)}; // or none
      int64_t more = between(random, -50, 50), limit = between(random, 0, 200);
      heights.add(range, more);
      for (int64_t p = range.begin; p < range.end; ++p)
        bytes[p] += more;
      ASSERT_EQ(heights.all(), bytes);
      ASSERT_EQ(heights.most(), *std::max_element(bytes.begin(), bytes.end()));
      Range looked{between(random, 0, n), between(random, 0, n)};
      ASSERT_EQ(heights.firstAbove(looked, limit), firstAbove(bytes, looked, limit));
      found += firstAbove(bytes, looked, limit) >= 0;
      for (int64_t p = 0; p < n; ++p) {
        ASSERT_LE(heights.leastOf(p / Heights::kBlock), bytes[p]);
        ASSERT_GE(heights.mostOf(p / Heights::kBlock), bytes[p]);
      }
    }
  }
  EXPECT_GT(found, 100);
}

TEST(Heights, OfNoPosition) {
  Heights heights(std::vector<int64_t>{});
  EXPECT_EQ(heights.most(), 0);
  EXPECT_TRUE(heights.all().empty());
}

} // namespace
