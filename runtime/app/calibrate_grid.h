// The shapes of the work that `calibrate` measures.
#pragma once

#include "runtime/core/dtype.h"
#include "runtime/device/device.h"

#include <array>
#include <vector>

namespace tessera::rt {

struct CalibrationGrid {
  /// `count` products of m x k by k x n.
  using Product = std::array<int64_t, 4>;
  /// Heads of rows x rows by `size`.
  struct Heads {
    int64_t count, rows, size;
  };
  /// A batch of images of `side` x `side`, as many channels in as out, padded to the same size.
  struct Images {
    int64_t batch, channels, side, kernel;
  };
  struct OfType {
    DType type;
    std::vector<Product> products;
    std::vector<Heads> attention;
  };

  std::vector<OfType> types;
  /// In f32.
  std::vector<Images> convolutions;
  /// Rows of a table that are looked up, and their length; elements that are updated.
  std::vector<int64_t> rows;
  int64_t width;
  std::vector<int64_t> updates;

  /// Not measured for the rates, but with them: what these are off by there.
  DType checkedType;
  std::vector<Product> checkedProducts;
  Heads checkedAttention;
  Images checkedConvolution;

  /// Sets of buffers that are used in turns have so many bytes together, so that none is in a cache already,
  /// as most of a step's are not; at most so many sets.
  int64_t coldBytes, mostSets;
  /// What takes longer, by the best rate so far, is left out.
  double longest;
};

/// Of a processor's threads, or of a card.
CalibrationGrid calibrationGrid(const Device &device);

} // namespace tessera::rt
