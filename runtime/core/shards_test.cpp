// That the sums of all sizes are one tree.
#include "runtime/core/shards.h"

#include <gtest/gtest.h>

#include <functional>

namespace tessera::rt {
namespace {

using Levels = std::vector<int64_t>;

std::string join(const std::vector<std::string> &terms) {
  std::string sum;
  for (const std::string &term : terms)
    sum += (sum.empty() ? "" : "+") + term;
  return terms.size() == 1 ? sum : "(" + sum + ")";
}

/// The sum, with its brackets, of terms that come subtree by subtree.
std::string sumOf(const std::vector<std::string> &terms, Levels levels) {
  std::vector<std::string> left = terms;
  for (; !levels.empty(); levels.pop_back()) {
    std::vector<std::string> next;
    for (size_t i = 0; i < left.size(); i += size_t(levels.back()))
      next.push_back(join({left.begin() + i, left.begin() + i + levels.back()}));
    left = next;
  }
  EXPECT_EQ(left.size(), 1u);
  return left[0];
}

std::string sumOn(const Shards &shards) {
  std::vector<std::string> ranks;
  for (int64_t rank = 0; rank < shards.size; ++rank) {
    std::vector<std::string> terms;
    for (int64_t micro : microbatchOrder(shards.microbatchLevels()))
      terms.push_back(std::to_string(micro * shards.size + rank));
    ranks.push_back(sumOf(terms, shards.microbatchLevels()));
  }
  std::vector<std::string> ordered;
  for (int64_t rank : microbatchOrder(shards.rankLevels()))
    ordered.push_back(ranks[size_t(rank)]);
  return sumOf(ordered, shards.rankLevels());
}

TEST(Shards, AllSizesAddInTheSameTree) {
  EXPECT_EQ(sumOn({{1, 2, 4}, 4, 4}), "((0+2)+(1+3))");
  EXPECT_EQ(sumOn({{1, 2, 4}, 1, 4}), "((0+2)+(1+3))");
  EXPECT_EQ(sumOn({{2, 4}, 2, 8}), "(((0+4)+(2+6))+((1+5)+(3+7)))");
  for (const auto &[sizes, count] :
       {std::pair<Levels, int64_t>{{1, 2, 4, 8}, 8}, {{1, 3, 6}, 12}, {{2, 6}, 18}, {{1, 4}, 4}, {{3}, 9}}) {
    std::string first = sumOn({sizes, sizes.front(), count});
    for (int64_t size : sizes)
      EXPECT_EQ(sumOn({sizes, size, count}), first) << size;
  }
}

TEST(Shards, SizesThatHaveNoCommonTreeAreRefused) {
  EXPECT_EQ((Shards{{1, 2, 4}, 2, 4}.check()), "");
  EXPECT_NE((Shards{{2, 3}, 2, 6}.check()), "");
  EXPECT_NE((Shards{{1, 2}, 3, 6}.check()), "");
  EXPECT_NE((Shards{{1, 2, 4}, 2, 6}.check()), "");
  EXPECT_NE((Shards{{2, 1}, 2, 2}.check()), "");
  EXPECT_NE((Shards{{1, 1}, 1, 1}.check()), "");
  EXPECT_EQ((Shards{{}, 1, 1}.check()), "there are no sizes");
}

TEST(Shards, SizesAreParsed) {
  EXPECT_EQ(parseSizes("1,2,4"), (Levels{1, 2, 4}));
  EXPECT_EQ(parseSizes("3"), (Levels{3}));
  for (const char *wrong :
       {"", "1,", ",1", "2,1", "1,1", "0,1", "1;2", "1, 2", "x", "-1", "99999999999999999999"})
    EXPECT_FALSE(parseSizes(wrong)) << wrong;
}

} // namespace
} // namespace tessera::rt
