#include "dialects/dist/Axis.h"

#include <gtest/gtest.h>

namespace tessera::dist {
namespace {

const AxisRef x8{"x", 1, 8}, high{"x", 1, 2}, mid{"x", 2, 2}, low{"x", 4, 2}, y3{"y", 1, 3};

TEST(Axis, Overlap) {
  EXPECT_TRUE(overlaps(x8, mid));
  EXPECT_TRUE(overlaps({"x", 1, 4}, {"x", 2, 4}));
  EXPECT_FALSE(overlaps(high, mid));
  EXPECT_FALSE(overlaps(x8, y3));
  EXPECT_TRUE(contains(x8, mid));
  EXPECT_FALSE(contains(mid, x8));
  EXPECT_FALSE(contains({"x", 1, 4}, low));
}

TEST(Axis, SplitAndMergeAreInverse) {
  auto parts = split(x8, 2);
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->first, high);
  EXPECT_EQ(parts->second, (AxisRef{"x", 2, 4}));
  EXPECT_EQ(mergeNeighbours({parts->first, parts->second}), AxisList{x8});
  EXPECT_FALSE(split(x8, 3));
  EXPECT_FALSE(split(x8, 8));
  EXPECT_FALSE(split(x8, 1));
  EXPECT_EQ(mergeNeighbours({mid, high, y3}), (AxisList{mid, high, y3}));
}

TEST(Axis, RefineCutsAtTheEndsOfOthers) {
  AxisList whole{x8, y3}, part{mid};
  ASSERT_TRUE(refine({&whole, &part}));
  EXPECT_EQ(whole, (AxisList{high, mid, low, y3}));
  EXPECT_EQ(part, AxisList{mid});
  AxisList six{{"x", 1, 2}}, other{{"x", 1, 3}};
  EXPECT_FALSE(refine({&six, &other}));
  EXPECT_EQ(six, (AxisList{{"x", 1, 2}}));
}

TEST(Axis, Text) {
  EXPECT_EQ(toString(AxisList{x8, mid, {"z"}}), "\"x\"=8 \"x\":(2)2 \"z\"");
  EXPECT_EQ(product(AxisList{x8, y3}), 24);
}

TEST(Mesh, IndexAndGroup) {
  Mesh mesh({{"data", 1, 2}, {"one", 1, 1}, {"x", 1, 8}});
  EXPECT_EQ(mesh.numRanks(), 16);
  EXPECT_EQ(mesh.splitting().size(), 2u);
  // Rank 13 = data 1, x 5 = binary 101.
  EXPECT_EQ(mesh.index(13, {{"data", 1, 2}}), 1);
  EXPECT_EQ(mesh.index(13, {high}), 1);
  EXPECT_EQ(mesh.index(13, {mid}), 0);
  EXPECT_EQ(mesh.index(13, {low}), 1);
  EXPECT_EQ(mesh.index(13, {low, {"x", 1, 4}}), 4 + 2);
  EXPECT_EQ(mesh.group(13, {low, high}), (llvm::SmallVector<int64_t>{8, 12, 9, 13}));
  EXPECT_EQ(mesh.rest({mid}), (AxisList{{"data", 1, 2}, high, low}));
}

TEST(Mesh, ResolveFillsInSizesAndDropsUnitAxes) {
  Mesh mesh({{"data", 1, 2}, {"one", 1, 1}, {"x", 1, 8}});
  std::string why;
  EXPECT_EQ(mesh.resolve({{"x"}, {"one"}, {"data"}}, why), (AxisList{x8, {"data", 1, 2}}));
  EXPECT_FALSE(mesh.resolve({{"y"}}, why));
  EXPECT_EQ(why, "no axis \"y\" in the mesh; it has: \"data\"=2 \"one\"=1 \"x\"=8");
  EXPECT_FALSE(mesh.resolve({{"x", 1, 3}}, why));
  EXPECT_EQ(why, "sub-axis \"x\"=3 does not divide axis \"x\" of size 8");
  EXPECT_FALSE(mesh.resolve({{"x"}, mid}, why));
  EXPECT_EQ(why, "axis \"x\":(2)2 is named twice in \"x\" \"x\":(2)2");
}

} // namespace
} // namespace tessera::dist
