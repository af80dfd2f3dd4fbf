#include "runtime/simulate/network.h"

#include "runtime/simulate/folding.h"

#include <gtest/gtest.h>
#include <map>

using namespace tessera::rt;

namespace {

/// When each transfer ends, run to the end.
std::map<size_t, double> endsOf(Network &network) {
  std::map<size_t, double> ends;
  for (double now = 0; (now = network.next(now)) < std::numeric_limits<double>::infinity();)
    for (size_t what : network.finish(now))
      ends[what] = now;
  return ends;
}

TEST(Network, OneHasItsSlowestLink) {
  Network network;
  Network::Link fast = network.addLink(100), slow = network.addLink(10);
  network.start(0, 50, {{fast}, {slow}}, 0);
  EXPECT_DOUBLE_EQ(endsOf(network)[0], 5);
}

TEST(Network, TwoOnALinkHaveHalfOfItEach) {
  Network network;
  Network::Link link = network.addLink(10);
  network.start(0, 20, {{link}}, 0);
  network.start(0, 40, {{link}}, 1);
  // Both at 5 until 4 s; then 20 bytes are left, at 10.
  std::map<size_t, double> ends = endsOf(network);
  EXPECT_DOUBLE_EQ(ends[0], 4);
  EXPECT_DOUBLE_EQ(ends[1], 6);
}

TEST(Network, WhatOneCannotUseTheOtherHas) {
  Network network;
  Network::Link shared = network.addLink(10), narrow = network.addLink(2);
  network.start(0, 8, {{shared}, {narrow}}, 0);
  network.start(0, 32, {{shared}}, 1);
  std::map<size_t, double> ends = endsOf(network);
  EXPECT_DOUBLE_EQ(ends[0], 4) << "at 2";
  EXPECT_DOUBLE_EQ(ends[1], 4) << "at 8, not at the half of 10";
}

TEST(Network, WhoComesLaterSlowsFromThenOn) {
  Network network;
  Network::Link link = network.addLink(10);
  network.start(0, 30, {{link}}, 0);
  EXPECT_DOUBLE_EQ(network.next(0), 3);
  network.start(1, 10, {{link}}, 1);
  EXPECT_DOUBLE_EQ(network.next(1), 3) << "10 bytes at 5";
  EXPECT_EQ(network.finish(3), (std::vector<size_t>{1}));
  EXPECT_DOUBLE_EQ(network.next(3), 4) << "10 of 30 by 1, 10 more by 3, the rest alone";
}

TEST(Network, OneThatStandsForSeveralCountsAsThem) {
  Network one, all;
  Network::Link own = one.addLink(7), shared = one.addLink(10);
  one.start(0, 3, {{own}, {shared, 3}}, 0);
  Network::Link together = all.addLink(10);
  for (size_t i = 0; i < 3; ++i)
    all.start(0, 3, {{all.addLink(7)}, {together}}, i);
  double end = endsOf(one)[0];
  for (auto [what, at] : endsOf(all))
    EXPECT_EQ(at, end) << "to the bit";
}

TEST(Folding, PartsRanksByWhatTheirGroupsLookLike) {
  // Four ranks in pairs: alike. With one that differs, its partner differs from the other pair.
  Grouping pairs{{0, 0, 2, 2}, {0, 0, 0, 0}}, across{{0, 1, 0, 1}, {0, 0, 0, 0}};
  EXPECT_EQ(foldRanks({5, 5, 5, 5}, {pairs, across}).size(), 1u);
  Folding one = foldRanks({5, 6, 5, 5}, {pairs});
  EXPECT_EQ(one.classOf, (std::vector<int>{0, 1, 2, 2}));
  EXPECT_EQ(one.counts, (std::vector<int64_t>{1, 1, 2}));
  EXPECT_EQ(one.first, (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(foldRanks({5, 6, 5, 5}, {pairs, across}).size(), 4u) << "each sees it another way";
  Grouping alone{{0, 1, 2, 3}, {0, 0, 0, 1}};
  EXPECT_EQ(foldRanks({5, 5, 5, 5}, {alone, pairs}).classOf, (std::vector<int>{0, 0, 1, 2}));
  Grouping marked{{0, 0, 2, 2}, {0, 0, 1, 1}};
  EXPECT_EQ(foldRanks({5, 5, 5, 5}, {marked}).classOf, (std::vector<int>{0, 0, 1, 1}));
}

TEST(Folding, GroupsAreThoseOfClasses) {
  Grouping pairs{{0, 0, 2, 2}, {0, 0, 0, 0}};
  Folding folding = foldRanks({1, 2, 1, 2}, {pairs});
  ASSERT_EQ(folding.size(), 2u);
  FoldedGroups groups(pairs, folding);
  EXPECT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups.classes(0), (std::vector<size_t>{0, 1}));
  EXPECT_EQ(groups.countOf(0), 1);
}

} // namespace
