// Which ranks share a host, and its links.
#include "runtime/app/hosts.h"

#include <gtest/gtest.h>

using namespace tessera::rt;

namespace {

/// A letter for each rank's host.
HostLayout layout(std::string_view hosts) {
  std::vector<std::string> names;
  for (char host : hosts)
    names.emplace_back(1, host);
  return layoutOf(names);
}

TEST(Hosts, AreRegularWhereEachHasAsManyRanksInARow) {
  for (auto [hosts, count, ranks] :
       {std::tuple{"a", 1, 1}, {"aaaa", 1, 4}, {"ab", 2, 1}, {"aabb", 2, 2}, {"bbbaaaccc", 3, 3}}) {
    EXPECT_EQ(layout(hosts).hosts, count) << hosts;
    EXPECT_EQ(layout(hosts).ranks, ranks) << hosts;
  }
  for (auto [hosts, count] : {std::pair{"aab", 2},
                              {"abb", 2},
                              {"abbb", 2},
                              {"aaabc", 3},
                              {"abac", 3},
                              {"aabbcccc", 3},
                              {"abab", 2}}) {
    EXPECT_EQ(layout(hosts).hosts, count) << hosts;
    EXPECT_EQ(layout(hosts).ranks, std::nullopt) << hosts;
  }
}

TEST(Hosts, HaveAsManyLinksAsRanksThatSendAtFullSpeed) {
  EXPECT_EQ(ranksWithLinks(8, 1.0, 1.0, 0), 8);
  EXPECT_EQ(ranksWithLinks(8, 1.2, 1.0, 0), 8) << "measurements differ by as much";
  EXPECT_EQ(ranksWithLinks(8, 2.0, 1.0, 0), 4);
  EXPECT_EQ(ranksWithLinks(8, 2.1, 1.1, 0.1), 4);
  EXPECT_EQ(ranksWithLinks(8, 100.0, 1.0, 0), 1);
  EXPECT_EQ(ranksWithLinks(8, 2.0, 1.0, 0.7), 8) << "the long one is hardly longer than a short one";
  EXPECT_EQ(ranksWithLinks(2, 0.5, 1.0, 0), 2);
}

} // namespace
