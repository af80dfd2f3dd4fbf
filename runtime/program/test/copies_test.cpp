// What of a rank's state goes to another host.
#include "runtime/program/copy_plan.h"
#include "runtime/program/test/tiny.h"

#include <gtest/gtest.h>

using namespace tessera::rt;

namespace {

/// Four ranks, of each of which w is the same, or with `split` a piece of its own.
Description tiny(bool split) {
  nlohmann::json json = tinyDescription(4);
  json["programs"][1]["ops"].back()["changes"] = {3};
  if (split)
    json["variables"][0]["replicas"] = nlohmann::json::array();
  return parseDescription(json.dump());
}

} // namespace

TEST(Copies, WhatOtherHostsHaveIsNotSent) {
  for (const StateCopy &copy : planCopies(tiny(false), "train", {"a", "a", "b", "b"}))
    EXPECT_TRUE(copy.ranges.empty());
}

TEST(Copies, WhatOneHostAloneHasGoesToTheNext) {
  const Description description = tiny(true);
  const std::vector<StateCopy> copies = planCopies(description, "train", {"a", "a", "b", "c"});
  const std::vector<int> keepers = {2, 2, 3, 0};
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(copies[rank].keeper, keepers[rank]);
    EXPECT_EQ(copies[rank].variables, std::vector<size_t>{0});
    EXPECT_EQ(bytesOf(copies[rank]), 12);
  }
  EXPECT_EQ(bytesKept(description, "train", copies, 2), 2 * (slotHeaderBytes + 2 * slotPage));
  EXPECT_EQ(bytesKept(description, "train", copies, 1), 0);
}

TEST(Copies, RanksOfOneHostSendTheSameOnce) {
  nlohmann::json json = tinyDescription(4);
  json["programs"][1]["ops"].back()["changes"] = {3};
  json["variables"][0]["replicas"] = {{"data", 2, 2}}; // 0 and 1 have the same, 2 and 3 another
  const std::vector<StateCopy> copies =
      planCopies(parseDescription(json.dump()), "train", {"a", "a", "b", "b"});
  EXPECT_EQ(bytesOf(copies[0]), 12);
  EXPECT_EQ(bytesOf(copies[1]), 0);
  EXPECT_EQ(bytesOf(copies[2]), 12);
  EXPECT_EQ(bytesOf(copies[3]), 0);
}

TEST(Copies, ConsecutiveHosts) {
  EXPECT_EQ(consecutiveHosts(4, 2), (std::vector<std::string>{"0", "0", "1", "1"}));
}
