// gather and scatter_add, whole and with the vocabulary split.
#include "runtime/device/cpu/test/harness.h"

using namespace tessera::rt::cpu;

TEST(Gather, TakesRowsAndZeroesForeignIds) {
  auto table = randomFloats(5 * 37, 1);
  std::vector<int64_t> ids = {10, 14, 9, 15, 12, 12, -100, 11};
  std::vector<float> out(8 * 37, notANumber), expected(8 * 37, 0.0f);
  for (size_t i = 0; i < 7; ++i)
    if (ids[i] >= 10 && ids[i] < 15)
      std::copy_n(table.begin() + (ids[i] - 10) * 37, 37, expected.begin() + i * 37);
  callLibrary("gather", {{"rows", 5}, {"width", 37}, {"count", 8}, {"ids", "i64"}}, {table, ids, out},
              {10, 7});
  EXPECT_EQ(out, expected);
}

TEST(Gather, NarrowIdsAndOtherTypes) {
  std::vector<int64_t> table = {1, 2, 3, 4, 5, 6}, out(4);
  std::vector<int32_t> ids = {2, 0};
  callLibrary("gather", {{"rows", 3}, {"width", 2}, {"count", 2}, {"ids", "i32"}, {"dtype", "i64"}},
              {table, ids, out});
  EXPECT_EQ(out, (std::vector<int64_t>{5, 6, 1, 2}));
}

TEST(ScatterAdd, AddsRepeatedIdsAndSkipsPadding) {
  constexpr int64_t rows = 6, width = 45, count = 200, valid = 190;
  std::vector<int64_t> ids(count);
  for (int64_t i = 0; i < count; ++i)
    ids[i] = 3 + (i * 7) % 11;
  auto dy = randomFloats(count * width, 2), table = randomFloats(rows * width, 3);
  std::fill(dy.begin() + valid * width, dy.end(), notANumber);
  std::vector<double> sums(rows * width), accumulated(table.begin(), table.end());
  for (int64_t i = 0; i < valid; ++i)
    if (ids[i] >= 5 && ids[i] < 5 + rows)
      for (int64_t c = 0; c < width; ++c)
        sums[(ids[i] - 5) * width + c] += dy[i * width + c];
  for (size_t i = 0; i < sums.size(); ++i)
    accumulated[i] += sums[i];
  nlohmann::json attrs = {
      {"rows", rows}, {"width", width}, {"count", count}, {"ids", "i64"}, {"accumulate", true}};
  callLibrary("scatter_add", attrs, {ids, dy, table}, {5, valid});
  expectClose(table, accumulated);
  attrs["accumulate"] = false;
  std::fill(table.begin(), table.end(), notANumber);
  callLibrary("scatter_add", attrs, {ids, dy, table}, {5, valid});
  expectClose(table, sums);
}
