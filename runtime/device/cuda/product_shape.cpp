// See product_shape.h.
#include "runtime/device/cuda/product_shape.h"

#include <algorithm>

namespace tessera::rt::cuda {
namespace {

/// More calls than this are left to our own kernel, which does them in one.
constexpr int64_t mostCalls = 64;

struct Dimension {
  int64_t size;
  std::array<int64_t, 3> stride;
};

/// Neighbouring dimensions that are one are joined.
std::vector<Dimension> joined(const std::vector<Dimension> &dimensions) {
  std::vector<Dimension> result;
  for (const Dimension &dimension : dimensions) {
    bool continues = !result.empty();
    for (int i = 0; i < 3 && continues; ++i)
      continues = result.back().stride[size_t(i)] == dimension.size * dimension.stride[size_t(i)];
    if (continues)
      result.back() = {result.back().size * dimension.size, dimension.stride};
    else
      result.push_back(dimension);
  }
  return result;
}

/// The rows x columns matrix of these strides as one by columns.
std::optional<BlasMatrix> byColumns(int64_t rows, int64_t columns, int64_t rowStride, int64_t columnStride) {
  bool rowsTogether = rowStride == 1 || rows == 1, columnsTogether = columnStride == 1 || columns == 1;
  auto fits = [](int64_t leading, int64_t extent, int64_t others) {
    return others == 1 || leading >= extent;
  };
  if (rowsTogether && fits(columnStride, rows, columns))
    return BlasMatrix{rows, columns, std::max(columnStride, rows), false};
  if (columnsTogether && fits(rowStride, columns, rows))
    return BlasMatrix{columns, rows, std::max(rowStride, columns), true};
  return {};
}

void addOffsets(const std::vector<Dimension> &dimensions, std::vector<std::array<int64_t, 3>> &offsets) {
  for (const Dimension &dimension : dimensions) {
    std::vector<std::array<int64_t, 3>> more;
    for (const auto &offset : offsets)
      for (int64_t i = 0; i < dimension.size && int64_t(more.size()) <= mostCalls; ++i)
        more.push_back({offset[0] + i * dimension.stride[0], offset[1] + i * dimension.stride[1],
                        offset[2] + i * dimension.stride[2]});
    offsets = std::move(more);
  }
}

} // namespace

std::optional<BlasProduct> blasProduct(const GemmArguments &g) {
  if (g.m == 0 || g.n == 0 || g.k == 0)
    return {};
  std::vector<Dimension> items, terms;
  for (int32_t i = 0; i < g.dimensions; ++i)
    (i < g.items ? items : terms).push_back({g.sizes[i], {g.aBatch[i], g.bBatch[i], g.cBatch[i]}});
  items = joined(items);
  terms = joined(terms);
  int64_t k = g.k;
  // A sum that goes on where that over k ends is one with it.
  if (!terms.empty() && terms.back().stride[0] == k * g.aStrides[1] &&
      terms.back().stride[1] == k * g.bStrides[0]) {
    k *= terms.back().size;
    terms.pop_back();
  }
  BlasProduct product;
  auto a = byColumns(g.m, k, g.aStrides[0], g.aStrides[1]),
       b = byColumns(k, g.n, g.bStrides[0], g.bStrides[1]),
       c = byColumns(g.m, g.n, g.cStrides[0], g.cStrides[1]);
  if (!a || !b || !c)
    return {};
  // C by rows is its transpose by columns, and that is B's times A's.
  product.inOrder = !c->transposed;
  auto turned = [](BlasMatrix matrix) {
    matrix.transposed = !matrix.transposed;
    return matrix;
  };
  product.first = product.inOrder ? *a : turned(*b);
  product.second = product.inOrder ? *b : turned(*a);
  product.result = product.inOrder ? *c : turned(*c);
  if (!items.empty()) {
    auto largest = std::ranges::max_element(items, {}, &Dimension::size);
    product.count = largest->size;
    product.stride = largest->stride;
    items.erase(largest);
  }
  product.offsets.push_back({});
  addOffsets(items, product.offsets);
  size_t before = product.offsets.size();
  addOffsets(terms, product.offsets);
  product.terms = int64_t(product.offsets.size() / std::max<size_t>(before, 1));
  if (int64_t(product.offsets.size()) > mostCalls)
    return {};
  return product;
}

} // namespace tessera::rt::cuda
