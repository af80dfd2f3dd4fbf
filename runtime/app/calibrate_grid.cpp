// See calibrate_grid.h.
#include "runtime/app/calibrate_grid.h"

namespace tessera::rt {
namespace {

using Sizes = std::vector<int64_t>;

// Thin ones, square ones, and batches of small ones.
std::vector<CalibrationGrid::Product> products(const Sizes &rows, const Sizes &sizes, int64_t count,
                                               const Sizes &small) {
  std::vector<CalibrationGrid::Product> all;
  for (int64_t m : rows)
    for (int64_t n : sizes)
      for (int64_t k : sizes)
        all.push_back({1, m, n, k});
  for (int64_t m : small)
    for (int64_t n : small)
      for (int64_t k : small)
        all.push_back({count, m, n, k});
  return all;
}

std::vector<CalibrationGrid::Heads> attention(int64_t count, const Sizes &rows, const Sizes &sizes) {
  std::vector<CalibrationGrid::Heads> all;
  for (int64_t length : rows)
    for (int64_t size : sizes)
      all.push_back({count, length, size});
  return all;
}

// As many images as have so many positions together.
std::vector<CalibrationGrid::Images> convolutions(int64_t positions, const Sizes &channelSizes,
                                                  const Sizes &sides) {
  std::vector<CalibrationGrid::Images> all;
  for (int64_t channels : channelSizes)
    for (int64_t side : sides)
      for (int64_t kernel : {1, 3})
        all.push_back({positions / (side * side), channels, side, kernel});
  return all;
}

template <typename Shape> std::vector<Shape> both(std::vector<Shape> one, const std::vector<Shape> &other) {
  one.insert(one.end(), other.begin(), other.end());
  return one;
}

CalibrationGrid ofProcessor() {
  const Sizes rows = {1, 4, 16, 128, 1024}, small = {16, 128};
  return {
      // Attention computes in f32: half types are much alike, and less is measured of them. Few sizes are
      // powers of two, at which caches are slower.
      .types = {{DType::F32, products(rows, {16, 96, 384, 1536}, 32, small),
                 attention(16, {16, 48, 128, 512}, {8, 32, 64, 128})},
                {DType::BF16, products(rows, {16, 192, 1536}, 32, small),
                 attention(16, {16, 48, 128, 512}, {16, 64})}},
      // Of one number of positions alone rates would not tell images from their size.
      .convolutions =
          both(convolutions(2048, {16, 64, 256}, {4, 8, 16, 32}), convolutions(16384, {16}, {4, 16})),
      .rows = {4096},
      .width = 512,
      .updates = {1 << 12, 1 << 16, 1 << 19, 1 << 22},
      .checkedType = DType::F32,
      .checkedProducts = {{1, 4, 768, 768}, {1, 200, 768, 3072}, {1, 512, 1536, 384}, {12, 64, 96, 64}},
      .checkedAttention = {12, 200, 64},
      .checkedConvolution = {4, 128, 14, 3},
      .coldBytes = 64 << 20,
      .mostSets = 64,
      .longest = 2,
  };
}

CalibrationGrid ofCard() {
  const Sizes rows = {1, 16, 128, 1024, 4096, 16384}, sizes = {64, 256, 768, 2048, 4096}, small = {64, 512};
  std::vector<CalibrationGrid::OfType> types;
  for (DType type : {DType::F32, DType::BF16, DType::F16}) {
    types.push_back({type, products(rows, sizes, 64, small), {{4, 32, 64}}});
    for (const CalibrationGrid::Heads &heads : attention(64, {128, 512, 2048}, {64, 128}))
      types.back().attention.push_back(heads);
  }
  return {
      .types = std::move(types),
      .convolutions = convolutions(8 * 56 * 56, {16, 64, 256}, {7, 28, 56}),
      .rows = {1 << 8, 1 << 12, 1 << 16},
      .width = 1024,
      .updates = {1 << 16, 1 << 20, 1 << 22, 1 << 25},
      .checkedType = DType::BF16,
      .checkedProducts = {{1, 512, 1536, 384},
                          {1, 4096, 768, 3072},
                          {1, 16384, 2304, 768},
                          {96, 256, 64, 128}},
      .checkedAttention = {96, 1024, 64},
      .checkedConvolution = {64, 128, 14, 3},
      .coldBytes = 128 << 20, // the caches of cards have up to 60 MiB
      .mostSets = 4,
      .longest = 0.03,
  };
}

} // namespace

CalibrationGrid calibrationGrid(const Device &device) { return device.isHost() ? ofProcessor() : ofCard(); }

} // namespace tessera::rt
