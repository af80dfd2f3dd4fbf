// The arithmetic of reductions.
#include "runtime/comm/combine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tessera::rt {
namespace {

template <typename T> T combineAll(DType type, Reduction reduction, std::vector<T> values) {
  std::vector<const void *> arrays;
  for (const T &value : values)
    arrays.push_back(&value);
  T result;
  combine(type, reduction, arrays.data(), {{int64_t(arrays.size()), 1}}, &result, 1);
  return result;
}

TEST(Combine, SixteenBitsRoundOnceFromF32) {
  // 256 + 1 is 256 in bf16: rounding at every addition would lose all four ones. 2048 + 1 is 2048 in f16.
  const uint16_t bf256 = 0x4380, bf1 = 0x3f80, bf260 = 0x4382;
  EXPECT_EQ(combineAll<uint16_t>(DType::BF16, Reduction::Sum, {bf256, bf1, bf1, bf1, bf1}), bf260);
  const uint16_t f2048 = 0x6800, f1 = 0x3c00, f2052 = 0x6802;
  EXPECT_EQ(combineAll<uint16_t>(DType::F16, Reduction::Sum, {f2048, f1, f1, f1, f1}), f2052);
}

TEST(Combine, SixteenBitsRoundToNearestEven) {
  // 257 lies between 256 and 258, 259 between 258 and 260.
  EXPECT_EQ(combineAll<uint16_t>(DType::BF16, Reduction::Sum, {0x4380, 0x3f80}), 0x4380);
  EXPECT_EQ(combineAll<uint16_t>(DType::BF16, Reduction::Sum, {0x4381, 0x3f80}), 0x4382);
  // f16: the largest number is 65504; 65504 + 16 rounds to infinity, the smallest subnormal doubles.
  EXPECT_EQ(combineAll<uint16_t>(DType::F16, Reduction::Sum, {0x7bff, 0x4c00}), 0x7c00);
  EXPECT_EQ(combineAll<uint16_t>(DType::F16, Reduction::Sum, {0x7bff, 0x4bff}), 0x7bff);
  EXPECT_EQ(combineAll<uint16_t>(DType::F16, Reduction::Sum, {0x0001, 0x0001}), 0x0002);
  EXPECT_EQ(combineAll<uint16_t>(DType::F16, Reduction::Sum, {0x8001, 0x83ff}), 0x8400);
}

TEST(Combine, EverySixteenBitNumberSurvives) {
  for (DType type : {DType::BF16, DType::F16})
    for (int bits = 0; bits < 65536; ++bits) {
      bool nan = type == DType::BF16 ? (bits & 0x7fff) > 0x7f80 : (bits & 0x7fff) > 0x7c00;
      if (!nan) {
        ASSERT_EQ(combineAll<uint16_t>(type, Reduction::Sum, {uint16_t(bits)}), bits);
      }
    }
}

TEST(Combine, NaNPropagates) {
  float nan = std::numeric_limits<float>::quiet_NaN();
  for (Reduction reduction : {Reduction::Sum, Reduction::Max}) {
    EXPECT_TRUE(std::isnan(combineAll<float>(DType::F32, reduction, {nan, 1, 2})));
    EXPECT_TRUE(std::isnan(combineAll<float>(DType::F32, reduction, {1, nan, 2})));
    EXPECT_TRUE(std::isnan(combineAll<float>(DType::F32, reduction, {1, 2, nan})));
    uint16_t result = combineAll<uint16_t>(DType::BF16, reduction, {0x3f80, 0x7f81, 0x3f80});
    EXPECT_GT(result & 0x7fff, 0x7f80);
    result = combineAll<uint16_t>(DType::F16, reduction, {0x3c00, 0x7c01, 0x3c00});
    EXPECT_GT(result & 0x7fff, 0x7c00);
  }
}

TEST(Combine, TreesAddSubtreeBySubtree) {
  // In f32 1e8 + 1 is 1e8: only the sum of ones that comes first counts.
  const std::vector<float> values = {1e8f, 4, -1e8f, 4};
  std::vector<const void *> arrays;
  for (const float &value : values)
    arrays.push_back(&value);
  float result = 0;
  combine(DType::F32, Reduction::Sum, arrays.data(), {{2, 1}, {2, 2}}, &result, 1);
  EXPECT_EQ(result, 8); // (1e8 - 1e8) + (4 + 4)
  combine(DType::F32, Reduction::Sum, arrays.data(), {{4, 1}}, &result, 1);
  EXPECT_EQ(result, 4); // 1e8 + 4 is 1e8 + 8 or 1e8
}

TEST(Combine, IntegersWrap) {
  EXPECT_EQ(combineAll<int8_t>(DType::I8, Reduction::Sum, {100, 100}), int8_t(-56));
  EXPECT_EQ(combineAll<int64_t>(DType::I64, Reduction::Sum, {INT64_MAX, 1}), INT64_MIN);
  EXPECT_EQ(combineAll<uint32_t>(DType::U32, Reduction::Max, {0xffffffffu, 1u}), 0xffffffffu);
  EXPECT_EQ(combineAll<uint8_t>(DType::Bool, Reduction::Sum, {1, 1}), 1);
}

} // namespace
} // namespace tessera::rt
