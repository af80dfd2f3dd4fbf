// Products of operands that both lie packed: panels of tileRows rows of A and of panelWidth columns of B.
#include "runtime/device/cpu/kernels/transpose_square.h"

namespace tessera::rt::cpu::TESSERA_LEVEL {

typedef float HalfVector __attribute__((vector_size(lanes * 2), aligned(4), may_alias));
typedef float QuarterVector __attribute__((vector_size(lanes), aligned(4), may_alias));
// A panel's row of A is three quarters of a vector.
static_assert(tileRows * 4 == lanes * 3);

template <int... Lane>
static inline void storeRow(float *target, Vector v, std::integer_sequence<int, Lane...>) {
  *reinterpret_cast<HalfVector *>(target) = __builtin_shufflevector(v, v, Lane...);
  *reinterpret_cast<QuarterVector *>(target + lanes / 2) =
      [&]<int... Quarter>(std::integer_sequence<int, Quarter...>) {
        return __builtin_shufflevector(v, v, (Quarter + lanes / 2)...);
      }(std::make_integer_sequence<int, lanes / 4>());
}

static inline void storeRow(float *target, Vector v) {
  storeRow(target, v, std::make_integer_sequence<int, lanes / 2>());
}

/// One panel: target[l * tileRows + i] = a(i, l).
template <typename T>
static void packPanelRows(int64_t m, int64_t k, const T *a, int64_t row, int64_t column, float *target) {
  int64_t l = 0;
  if (m == tileRows && row == 1)
    for (; l + 1 < k; ++l)
      // Reads a little beyond the panel's rows, which the last step may not.
      storeRow(target + l * tileRows, load(a + l * column));
  if (m == tileRows && column == 1)
    for (; l + lanes <= k; l += lanes) {
      Vector rows[lanes];
      for (int i = 0; i < tileRows; ++i)
        rows[i] = load(a + i * row + l);
      for (int i = tileRows; i < lanes; ++i)
        rows[i] = Vector{};
      transposeSquare(rows);
      for (int j = 0; j < lanes; ++j)
        storeRow(target + (l + j) * tileRows, rows[j]);
    }
  for (; l < k; ++l)
    for (int64_t i = 0; i < tileRows; ++i)
      target[l * tileRows + i] = i < m ? widen(a[i * row + l * column]) : 0.0f;
}

/// c[tileRows x panelWidth] = or += a b of two panels.
static inline void tile(int64_t k, const float *a, const float *b, float *c, int64_t ldc, bool accumulate) {
  Vector sum[tileRows][2] = {};
  for (int i = 0; i < tileRows; ++i) {
    __builtin_prefetch(c + i * ldc, 1);
    __builtin_prefetch(c + i * ldc + lanes, 1);
  }
#pragma clang loop unroll_count(4)
  for (int64_t l = 0; l < k; ++l) {
    const Vector left = load(b + l * panelWidth), right = load(b + l * panelWidth + lanes);
    for (int i = 0; i < tileRows; ++i) {
      const Vector factor = Vector{} + a[l * tileRows + i];
      sum[i][0] += factor * left;
      sum[i][1] += factor * right;
    }
  }
  if (accumulate)
    for (int i = 0; i < tileRows; ++i)
      for (int j = 0; j < 2; ++j)
        sum[i][j] += load(c + i * ldc + j * lanes);
  for (int i = 0; i < tileRows; ++i)
    for (int j = 0; j < 2; ++j)
      store(c + i * ldc + j * lanes, sum[i][j]);
}

void productPanels(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c, int64_t ldc,
                   bool accumulate) {
  for (int64_t j = 0; j < n; j += panelWidth)
    for (int64_t i = 0; i < m; i += tileRows) {
      float *ci = c + i * ldc + j;
      const int64_t rows = least(tileRows, m - i), columns = least(panelWidth, n - j);
      if (rows == tileRows && columns == panelWidth) {
        tile(k, a + i * k, b + j * k, ci, ldc, accumulate);
        continue;
      }
      float edge[tileRows * panelWidth];
      tile(k, a + i * k, b + j * k, edge, panelWidth, false);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t s = 0; s < columns; ++s)
          ci[r * ldc + s] = (accumulate ? ci[r * ldc + s] : 0) + edge[r * panelWidth + s];
    }
}

void packRows(int64_t m, int64_t k, Source a, float *panels) {
  withElements(a.type, a.data, [&](const auto *data) {
    for (int64_t i = 0; i < m; i += tileRows)
      packPanelRows(least(tileRows, m - i), k, data + i * a.row, a.row, a.column, panels + i * k);
  });
}

} // namespace tessera::rt::cpu::TESSERA_LEVEL
