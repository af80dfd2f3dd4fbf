// Pieces of arrays: those of all ranks are the array, each element once, and what any rank holds can be put
// together from those of any others.
#include "runtime/checkpoint/block.h"

#include <gtest/gtest.h>
#include <numeric>
#include <random>

using namespace tessera::rt;

namespace {

/// A way to cut an array of shape [6, 30] over twelve ranks.
struct Cut {
  Layout layout;
  std::optional<Flat> flat;
  Axes replicas;
};

const Mesh mesh({{"x", 2}, {"y", 3}, {"z", 2}});
const Axes x = {{"x", 1, 2}}, y = {{"y", 1, 3}}, z = {{"z", 1, 2}};
const std::vector<int64_t> shape = {6, 30};
constexpr int64_t elements = 180;

std::vector<Cut> cuts() {
  Axes xyz = {x[0], y[0], z[0]};
  return {
      {{{{6, 6, {}, {}}}, {{30, 30, {}, {}}}}, {}, xyz},
      {{{{6, 6, x, {}}}, {{30, 30, y, {}}}}, {}, z},
      {{{{6, 8, x, {}}}, {{3, 3, {}, {}}, {2, 2, z, {}}, {5, 6, y, {}}}}, {}, {}}, // packed heads, padded
      {{{{2, 2, {}, {}}, {3, 4, x, {}}}, {{30, 30, {}, {}}}}, Flat{180, {y[0], z[0]}}, {}},
      {{{{6, 6, {}, {}}}, {{5, 5, {}, {}}, {6, 8, z, {}}}}, Flat{6 * 5 * 4 + 6, {y[0], x[0]}}, {}},
      {{{{6, 6, {}, {}}}, {{30, 36, y, {0, 5, 1, 4, 2, 3}}}}, Flat{74, x}, z}, // zigzag
  };
}

/// What a rank has in memory: element number + 1 of the array, 0 where padding is.
std::vector<int64_t> heldBy(const Cut &cut, int64_t rank) {
  std::vector<int64_t> memory(size_t(localElements(cut.layout, cut.flat, mesh)));
  forEachRun(cut.layout, cut.flat, mesh, mesh.coordinates(rank), false, [&](const tessera::rt::Run &run) {
    for (int64_t i = 0; i < run.count; ++i)
      memory[size_t(run.memory + i * run.stride)] = run.file + i + 1;
  });
  return memory;
}

/// The elements of a piece, written from a rank's memory.
std::vector<int64_t> written(const Piece &piece, const Block &block, const std::vector<int64_t> &memory) {
  std::vector<int64_t> values;
  forEachCommonRun(block, Block(piece), [&](int64_t from, int64_t to, int64_t count) {
    EXPECT_EQ(to, int64_t(values.size())) << "a piece is written from its start on";
    values.insert(values.end(), memory.begin() + from, memory.begin() + from + count);
  });
  EXPECT_EQ(int64_t(values.size()), piece.elements());
  return values;
}

struct Stored {
  Piece piece;
  std::vector<int64_t> values;
};

std::vector<Stored> store(const Cut &cut) {
  std::vector<Stored> all;
  for (int64_t rank = 0; rank < mesh.size(); ++rank) {
    const Coordinates at = mesh.coordinates(rank);
    if (mesh.index(cut.replicas, at) != 0)
      continue;
    const Block block(cut.layout, cut.flat, mesh, at);
    for (const Piece &piece : piecesOf(cut.layout, cut.flat, mesh, at))
      all.push_back({piece, written(piece, block, heldBy(cut, rank))});
  }
  return all;
}

} // namespace

TEST(Block, PiecesOfAllRanksAreTheArray) {
  for (const Cut &cut : cuts()) {
    std::vector<int64_t> values;
    for (const Stored &stored : store(cut))
      values.insert(values.end(), stored.values.begin(), stored.values.end());
    std::sort(values.begin(), values.end());
    std::vector<int64_t> expected(elements);
    std::iota(expected.begin(), expected.end(), 1);
    EXPECT_EQ(values, expected);
  }
}

TEST(Block, AnyRankReadsFromAnyPieces) {
  for (const Cut &from : cuts()) {
    const std::vector<Stored> all = store(from);
    for (const Cut &to : cuts())
      for (int64_t rank = 0; rank < mesh.size(); ++rank) {
        std::vector<int64_t> expected = heldBy(to, rank), memory(expected.size());
        const Block block(to.layout, to.flat, mesh, mesh.coordinates(rank));
        for (const Stored &stored : all)
          forEachCommonRun(block, Block(stored.piece), [&](int64_t into, int64_t at, int64_t count) {
            std::copy_n(stored.values.begin() + at, count, memory.begin() + into);
          });
        EXPECT_EQ(memory, expected) << "rank " << rank;
      }
  }
}

TEST(Block, WholeArraysAreOneRun) {
  const Block whole(Piece{Box::whole(shape), {}});
  int64_t runs = 0;
  forEachCommonRun(whole, Block(Piece{{{{2, 3}, {5, 6}}, {{{0, 2}, {0, 3}}, {{0, 5}, {0, 6}}}}, {}}),
                   [&](int64_t, int64_t, int64_t count) {
                     ++runs;
                     EXPECT_EQ(count, elements);
                   });
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(Box::whole({}).elements(), 1);
  runs = 0;
  forEachCommonRun(Block(Piece{Box::whole({}), {}}), Block(Piece{Box::whole({}), {}}),
                   [&](int64_t, int64_t, int64_t) { ++runs; });
  EXPECT_EQ(runs, 1) << "a number has one element";
}

TEST(Block, BoxesOfOtherViewsIntersect) {
  const Box half{{{6}, {2, 15}}, {{{0, 6}}, {{0, 1}, {0, 15}}}}, // columns 0 to 14
      other{{{6}, {30}}, {{{0, 6}}, {{15, 30}}}}, fifth{{{6}, {5, 6}}, {{{2, 3}}, {{2, 3}, {0, 6}}}};
  EXPECT_FALSE(intersect(half, other));
  EXPECT_TRUE(intersect(half, fifth));
  EXPECT_TRUE(intersect(fifth, other));
  EXPECT_TRUE(intersect(half, half));
}
