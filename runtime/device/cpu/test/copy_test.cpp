// Copies and fills: copy_box, transpose, fill, mask_padding, logical_index.
#include "runtime/device/cpu/test/harness.h"

#include <numeric>

using namespace tessera::rt;
using namespace tessera::rt::cpu;
using nlohmann::json;

namespace {
template <typename T> std::vector<T> counted(int64_t n) {
  std::vector<T> values(n);
  std::iota(values.begin(), values.end(), T(1));
  return values;
}

template <typename T>
void checkTranspose(const char *dtype, std::vector<int64_t> shape, std::vector<int64_t> perm) {
  const int64_t rank = shape.size(),
                n = std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies());
  std::vector<T> source = counted<T>(n), target(n), expected(n);
  for (int64_t flat = 0; flat < n; ++flat) {
    std::vector<int64_t> at(rank);
    for (int64_t i = rank, rest = flat; i-- > 0; rest /= shape[i])
      at[i] = rest % shape[i];
    int64_t to = 0;
    for (int64_t j = 0; j < rank; ++j)
      to = to * shape[perm[j]] + at[perm[j]];
    expected[to] = source[flat];
  }
  callLibrary("transpose", {{"shape", shape}, {"perm", perm}, {"dtype", dtype}}, {source, target});
  EXPECT_EQ(target, expected);
}
} // namespace

TEST(Transpose, AllPermutationsOfFour) {
  std::vector<int64_t> perm = {0, 1, 2, 3};
  do
    checkTranspose<float>("f32", {3, 17, 5, 20}, perm);
  while (std::next_permutation(perm.begin(), perm.end()));
}

TEST(Transpose, TypesSizesAndDegenerateShapes) {
  checkTranspose<uint8_t>("bool", {70, 33}, {1, 0});
  checkTranspose<int16_t>("bf16", {70, 33}, {1, 0});
  checkTranspose<int64_t>("i64", {70, 133}, {1, 0});
  checkTranspose<float>("f32", {257, 391}, {1, 0});
  checkTranspose<float>("f32", {1, 5, 1}, {2, 1, 0});
  checkTranspose<float>("f32", {}, {});
  checkTranspose<float>("f32", {4, 0, 3}, {2, 1, 0});
  checkTranspose<float>("f32", {100000}, {0});
}

TEST(CopyBox, OffsetsStridesAndBroadcast) {
  auto source = counted<float>(6 * 8);
  std::vector<float> target(5 * 10, 0), expected(5 * 10, 0);
  // Rows 2.. and columns 3.. of the source to rows 1.. and columns 4.. of the target, the row offset at run
  // time.
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 5; ++j)
      expected[(1 + i) * 10 + 4 + j] = source[(2 + i) * 8 + 3 + j];
  const json attrs = {{"shape", {3, 5}},
                      {"source_strides", {8, 1}},
                      {"target_strides", {10, 1}},
                      {"source_offset", 3},
                      {"target_offset", 4}};
  callLibrary("copy_box", attrs, {source, target}, {16, 10});
  EXPECT_EQ(target, expected);

  std::vector<float> row = {1, 2, 3}, wide(12);
  callLibrary("copy_box", {{"shape", {4, 3}}, {"source_strides", {0, 1}}, {"target_strides", {3, 1}}},
              {row, wide});
  EXPECT_EQ(wide, (std::vector<float>{1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3}));
  callLibrary("copy_box", {{"shape", {3, 4}}, {"source_strides", {1, 0}}, {"target_strides", {4, 1}}},
              {row, wide});
  EXPECT_EQ(wide, (std::vector<float>{1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}));
}

TEST(CopyBox, RefusesABoxBeyondTheBuffer) {
  const json attrs = {{"shape", {3, 5}}, {"source_strides", {8, 1}}, {"target_strides", {5, 1}}};
  const std::vector<int64_t> bytes = {80, 60};
  EXPECT_THROW(prepareCall("copy_box", {attrs, bytes, 0, 1}), Error);
}

TEST(Fill, Values) {
  std::vector<float> x(100001, notANumber);
  callLibrary("fill", {{"count", x.size()}, {"value", -2.5}}, {x});
  EXPECT_EQ(x, std::vector<float>(x.size(), -2.5f));
  callLibrary("fill", {{"count", x.size()}, {"value", "-inf"}}, {x});
  EXPECT_EQ(x, std::vector<float>(x.size(), -INFINITY));
  std::vector<int64_t> labels(7);
  callLibrary("fill", {{"count", 7}, {"value", -100}, {"dtype", "i64"}}, {labels});
  EXPECT_EQ(labels, std::vector<int64_t>(7, -100));
  callLibrary("fill", {{"count", 7}, {"value", "-inf"}, {"dtype", "i64"}}, {labels});
  EXPECT_EQ(labels, std::vector<int64_t>(7, INT64_MIN));
  callLibrary("fill", {{"count", 7}, {"value", "inf"}, {"dtype", "i64"}}, {labels});
  EXPECT_EQ(labels, std::vector<int64_t>(7, INT64_MAX));
  std::vector<int32_t> counts(7);
  callLibrary("fill", {{"count", 7}, {"value", "-inf"}, {"dtype", "i32"}}, {counts});
  EXPECT_EQ(counts, std::vector<int32_t>(7, INT32_MIN));
}

TEST(MaskPadding, InPlaceAndCopied) {
  const auto original = randomFloats(4 * 6 * 5, 1);
  auto expected = original, x = original;
  for (int64_t o = 0; o < 4; ++o)
    std::fill_n(expected.begin() + (o * 6 + 4) * 5, 10, 0.0f);
  for (int64_t o = 0; o < 4; ++o)
    std::fill_n(x.begin() + (o * 6 + 4) * 5, 10, notANumber);
  std::vector<float> out(x.size(), notANumber);
  json attrs = {{"outer", 4}, {"n", 6}, {"inner", 5}, {"out", true}};
  callLibrary("mask_padding", attrs, {x, out}, {4});
  EXPECT_EQ(out, expected);
  attrs["out"] = false;
  callLibrary("mask_padding", attrs, {x}, {4});
  EXPECT_EQ(x, expected);
  callLibrary("mask_padding", attrs, {x}, {6});
  EXPECT_EQ(x, expected);
  callLibrary("mask_padding", attrs, {x}, {0});
  EXPECT_EQ(x, std::vector<float>(x.size(), 0));
}

TEST(MaskPadding, PieceOfTheArray) {
  // Cut into pieces of 23 the array [4, 6, 5] of 120 elements reaches 115 into the sixth.
  const auto original = randomFloats(6 * 23, 2);
  auto expected = original;
  for (int64_t o = 0; o < 4; ++o)
    std::fill_n(expected.begin() + (o * 6 + 4) * 5, 10, 0.0f);
  for (bool copies : {true, false})
    for (int64_t p = 0; p < 6; ++p) {
      std::vector<float> x(original.begin() + p * 23, original.begin() + (p + 1) * 23), out(23, notANumber);
      json attrs = {{"outer", 4}, {"n", 6}, {"inner", 5}, {"out", copies}, {"piece", 23}};
      if (copies)
        callLibrary("mask_padding", attrs, {x, out}, {4, p * 23});
      else
        callLibrary("mask_padding", attrs, {x}, {4, p * 23});
      EXPECT_EQ(copies ? out : x,
                std::vector<float>(expected.begin() + p * 23, expected.begin() + (p + 1) * 23))
          << p;
    }
}

TEST(LogicalIndex, Counts) {
  std::vector<int64_t> out(4);
  callLibrary("logical_index", {{"count", 4}}, {out}, {8});
  EXPECT_EQ(out, (std::vector<int64_t>{8, 9, 10, 11}));
}

TEST(Library, NamesAreSortedAndUnknownOnesRefused) {
  const auto names = libraryFunctions();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_THROW(prepareCall("convolve", {json::object(), {}, 0, 1}), Error);
  const std::vector<int64_t> bytes = {40, 40};
  EXPECT_THROW(prepareCall("fill", {json{{"count", 10}}, bytes, 0, 1}), Error);
}
