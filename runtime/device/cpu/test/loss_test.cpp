// The pieces of cross entropy on a vocabulary block with padding, against f64.
#include "runtime/device/cpu/test/harness.h"

using namespace tessera::rt;
using namespace tessera::rt::cpu;

namespace {
constexpr int64_t rows = 9, cols = 133, valid = 120, start = 50, validRows = 8;

struct Data {
  std::vector<float> logits = randomFloats(rows * cols, 1);
  std::vector<int64_t> labels = {50, 169, 170, 49, -100, 60, 100, 169, 55};
  Data() {
    for (float &x : logits)
      x *= 20;
    for (int64_t i = 0; i < rows; ++i)
      std::fill_n(logits.begin() + i * cols + valid, cols - valid, notANumber);
    logits[3 * cols + 5] = -INFINITY;
  }
  double at(int64_t i, int64_t j) const { return logits[i * cols + j]; }
};
} // namespace

TEST(CrossEntropy, MaximumAndSums) {
  Data data;
  std::vector<float> max(rows), sum(rows), picked(rows, notANumber);
  callLibrary("row_max", {{"rows", rows}, {"cols", cols}}, {data.logits, max}, {valid});
  callLibrary("softmax_sums", {{"rows", rows}, {"cols", cols}}, {data.logits, data.labels, max, sum, picked},
              {start, valid});
  for (int64_t i = 0; i < rows; ++i) {
    double highest = -INFINITY, total = 0;
    for (int64_t j = 0; j < valid; ++j)
      highest = std::max(highest, data.at(i, j));
    for (int64_t j = 0; j < valid; ++j)
      total += std::exp(data.at(i, j) - highest);
    const int64_t label = data.labels[i] - start;
    EXPECT_EQ(max[i], float(highest));
    EXPECT_NEAR(sum[i], total, 2e-6 * total);
    EXPECT_NEAR(picked[i], label >= 0 && label < valid ? data.at(i, label) - highest : 0.0, 1e-5) << i;
  }
}

TEST(CrossEntropy, MaximumOfNothingAndOfNaN) {
  std::vector<float> x = {1, notANumber, 3, 4, 5, 6}, max(2);
  callLibrary("row_max", {{"rows", 2}, {"cols", 3}}, {x, max});
  EXPECT_TRUE(std::isnan(max[0]));
  EXPECT_EQ(max[1], 6);
  callLibrary("row_max", {{"rows", 2}, {"cols", 3}}, {x, max}, {0});
  EXPECT_EQ(max[1], -INFINITY);
}

TEST(CrossEntropy, BackwardAndInPlace) {
  Data data;
  std::vector<float> lse(rows), scale = {0.25f};
  std::vector<double> expected(rows * cols);
  for (int64_t i = 0; i < rows; ++i) {
    double highest = -INFINITY, total = 0;
    for (int64_t j = 0; j < valid; ++j)
      highest = std::max(highest, data.at(i, j));
    for (int64_t j = 0; j < valid; ++j)
      total += std::exp(data.at(i, j) - highest);
    lse[i] = float(highest + std::log(total));
    if (i < validRows && data.labels[i] != -100)
      for (int64_t j = 0; j < valid; ++j)
        expected[i * cols + j] =
            0.25 * (std::exp(data.at(i, j) - double(lse[i])) - (j + start == data.labels[i] ? 1 : 0));
  }
  std::vector<float> out(rows * cols, notANumber);
  const nlohmann::json attrs = {{"rows", rows}, {"cols", cols}};
  callLibrary("cross_entropy_backward", attrs, {data.logits, data.labels, lse, scale, out},
              {start, valid, validRows});
  expectClose(out, expected, 2e-6);

  Pool pool(2);
  const std::vector<int64_t> bytes = {rows * cols * 4, rows * 8, rows * 4, 4, rows * cols * 4},
                             scalars = {start, valid, validRows};
  void *args[] = {data.logits.data(), data.labels.data(), lse.data(), scale.data(), data.logits.data()};
  prepareCall("cross_entropy_backward", {attrs, bytes, 3, 2})({args, scalars.data(), pool});
  EXPECT_EQ(data.logits, out);
}
