// How a broadcast travels, and which way is chosen.
#include "dialects/dist/Broadcast.h"

#include <gtest/gtest.h>
#include <set>

namespace tessera::dist {
namespace {

using rt::BroadcastAlgorithm;
constexpr BroadcastAlgorithm kAll[] = {BroadcastAlgorithm::Direct, BroadcastAlgorithm::Tree,
                                       BroadcastAlgorithm::Chain};

TEST(Broadcast, EveryPlaceReceivesOnceFromWhoSendsToIt) {
  for (BroadcastAlgorithm algorithm : kAll)
    for (int64_t ranks = 1; ranks <= 17; ++ranks) {
      SCOPED_TRACE(std::string(rt::broadcastName(algorithm)) + " over " + std::to_string(ranks));
      std::set<int64_t> reached;
      for (int64_t place = 0; place < ranks; ++place)
        for (int64_t receiver : rt::broadcastReceivers(algorithm, ranks, place)) {
          EXPECT_EQ(rt::broadcastSender(algorithm, receiver), place);
          EXPECT_TRUE(reached.insert(receiver).second) << receiver << " receives twice";
        }
      EXPECT_EQ(int64_t(reached.size()), ranks - 1);
      EXPECT_FALSE(reached.count(0));
    }
}

TEST(Broadcast, SizeAndGroupChoose) {
  auto chosen = [](int64_t ranks, double bytes) {
    return broadcastCost({}, bytes, {AxisRef{"a", 1, ranks}}).algorithm;
  };
  EXPECT_EQ(chosen(2, 64), BroadcastAlgorithm::Direct);
  EXPECT_EQ(chosen(2, 1 << 20), BroadcastAlgorithm::Direct);
  EXPECT_EQ(chosen(8, 64), BroadcastAlgorithm::Direct);
  EXPECT_EQ(chosen(64, 1 << 16), BroadcastAlgorithm::Tree);
  EXPECT_EQ(chosen(8, 1 << 26), BroadcastAlgorithm::Chain);
}

TEST(Broadcast, NoneIsFasterThanTheChosenOne) {
  for (int64_t ranks : {2, 3, 4, 8, 64})
    for (double bytes = 16; bytes < 1e9; bytes *= 4) {
      CostModel model;
      BroadcastCost cost = broadcastCost(model, bytes, {AxisRef{"a", 1, ranks}});
      for (BroadcastAlgorithm algorithm : kAll)
        EXPECT_LE(cost.seconds, model.launch + rt::broadcastLoad(algorithm, ranks, bytes)
                                                   .seconds(model.defaultLink.alpha, model.defaultLink.beta));
    }
}

} // namespace
} // namespace tessera::dist
