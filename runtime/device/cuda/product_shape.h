// A product as cuBLASLt knows it: matrices by columns, one batch dimension.
#pragma once

#include "runtime/device/cuda/kernels/arguments.h"

#include <array>
#include <optional>
#include <vector>

namespace tessera::rt::cuda {

/// A matrix in memory by columns; `transposed`: the product takes its transpose.
struct BlasMatrix {
  int64_t rows, columns, leading;
  bool transposed;
};

/// D = op(first) op(second), for `count` items.
struct BlasProduct {
  BlasMatrix first, second, result;
  /// Whether first and second are A and B; else B and A, and the result is the transpose of C.
  bool inOrder;
  int64_t count = 1;
  /// Elements from item to item of A, B and C.
  std::array<int64_t, 3> stride{};
  /// Elements before A, B and C in each call; those that add to the same items follow each other.
  std::vector<std::array<int64_t, 3>> offsets;
  /// Calls that add to the same items.
  int64_t terms = 1;
};

/// Nothing where a matrix has no dimension whose elements are neighbours, or there would be too many calls.
std::optional<BlasProduct> blasProduct(const GemmArguments &arguments);

} // namespace tessera::rt::cuda
