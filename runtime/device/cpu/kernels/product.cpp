// Matrix product of blocks that fit the cache: a register tile of tileRows x panelWidth, operands by strides
// or packed.
#include "runtime/device/cpu/kernels/transpose_square.h"

namespace tessera::rt::cpu::TESSERA_LEVEL {

/// c[Rows x Vectors*lanes] = or += a b; consecutive rows of b are `ldb` apart.
template <int Rows, int Vectors>
static inline void tile(int64_t k, const float *a, int64_t row, int64_t column, const float *b, int64_t ldb,
                        float *c, int64_t ldc, bool accumulate) {
  Vector sum[Rows][Vectors];
  for (int i = 0; i < Rows; ++i)
    for (int j = 0; j < Vectors; ++j)
      sum[i][j] = accumulate ? load(c + i * ldc + j * lanes) : Vector{};
  for (int64_t l = 0; l < k; ++l) {
    Vector bl[Vectors];
    for (int j = 0; j < Vectors; ++j)
      bl[j] = load(b + l * ldb + j * lanes);
    for (int i = 0; i < Rows; ++i) {
      const Vector ai = Vector{} + a[i * row + l * column];
      for (int j = 0; j < Vectors; ++j)
        sum[i][j] += ai * bl[j];
    }
  }
  for (int i = 0; i < Rows; ++i)
    for (int j = 0; j < Vectors; ++j)
      store(c + i * ldc + j * lanes, sum[i][j]);
}

using TileFn = void (*)(int64_t k, const float *a, int64_t row, int64_t column, const float *b, int64_t ldb,
                        float *c, int64_t ldc, bool accumulate);

template <int Rows, int Vectors>
static void tileFn(int64_t k, const float *a, int64_t row, int64_t column, const float *b, int64_t ldb,
                   float *c, int64_t ldc, bool accumulate) {
  // A unit stride known to the compiler saves address arithmetic in the common cases.
  if (column == 1)
    tile<Rows, Vectors>(k, a, row, 1, b, ldb, c, ldc, accumulate);
  else if (row == 1)
    tile<Rows, Vectors>(k, a, 1, column, b, ldb, c, ldc, accumulate);
  else
    tile<Rows, Vectors>(k, a, row, column, b, ldb, c, ldc, accumulate);
}

#define TESSERA_TILES(v)                                                                                     \
  {                                                                                                          \
    tileFn<1, v>, tileFn<2, v>, tileFn<3, v>, tileFn<4, v>, tileFn<5, v>, tileFn<6, v>
#ifdef __AVX512F__
#define TESSERA_MORE_TILES(v)                                                                                \
  , tileFn<7, v>, tileFn<8, v>, tileFn<9, v>, tileFn<10, v>, tileFn<11, v>, tileFn<12, v>
#else
#define TESSERA_MORE_TILES(v)
#endif
/// tiles[vectors - 1][rows - 1]
static constexpr TileFn tiles[2][tileRows] = {TESSERA_TILES(1) TESSERA_MORE_TILES(1)},
                        TESSERA_TILES(2) TESSERA_MORE_TILES(2)
}
}
;

/// One panel of columns: n <= panelWidth of them, all rows. b must be readable for whole vectors.
static void panel(int64_t m, int64_t n, int64_t k, Strided a, const float *b, int64_t ldb, float *c,
                  int64_t ldc, bool accumulate) {
  const int vectors = n <= lanes ? 1 : 2;
  const int64_t width = vectors * lanes;
  for (int64_t i = 0; i < m; i += tileRows) {
    const int64_t rows = least(tileRows, m - i);
    const TileFn fn = tiles[vectors - 1][rows - 1];
    const float *ai = a.data + i * a.row;
    float *ci = c + i * ldc;
    if (n == width) {
      fn(k, ai, a.row, a.column, b, ldb, ci, ldc, accumulate);
      continue;
    }
    float edge[tileRows * panelWidth];
    fn(k, ai, a.row, a.column, b, ldb, edge, width, false);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < n; ++j)
        ci[r * ldc + j] = (accumulate ? ci[r * ldc + j] : 0) + edge[r * width + j];
  }
}

void product(int64_t m, int64_t n, int64_t k, Strided a, const float *panels, int64_t panelDepth, float *c,
             int64_t ldc, bool accumulate) {
  for (int64_t j = 0; j < n; j += panelWidth)
    panel(m, least(panelWidth, n - j), k, a, panels + j * panelDepth, panelWidth, c + j, ldc, accumulate);
}

void productRows(int64_t m, int64_t n, int64_t k, Strided a, const float *b, int64_t ldb, float *c,
                 int64_t ldc, bool accumulate) {
  for (int64_t j = 0; j < n; j += panelWidth)
    panel(m, least(panelWidth, n - j), k, a, b + j, ldb, c + j, ldc, accumulate);
}

template <typename T>
static void packPanelsOf(int64_t k, int64_t n, const T *b, int64_t row, int64_t column, float *panels) {
  for (int64_t j = 0; j < n; j += panelWidth, panels += k * panelWidth) {
    const int64_t width = least(panelWidth, n - j);
    const T *source = b + j * column;
    if (width == panelWidth && column == 1) {
      for (int64_t l = 0; l < k; ++l) {
        store(panels + l * panelWidth, load(source + l * row));
        store(panels + l * panelWidth + lanes, load(source + l * row + lanes));
      }
      continue;
    }
    if (width == panelWidth && row == 1) {
      transposeFrom(panelWidth, k, source, column, panels, panelWidth);
      continue;
    }
    for (int64_t l = 0; l < k; ++l)
      for (int64_t c = 0; c < panelWidth; ++c)
        panels[l * panelWidth + c] = c < width ? widen(source[l * row + c * column]) : 0.0f;
  }
}

void packPanels(int64_t k, int64_t n, Source b, float *panels) {
  withElements(b.type, b.data, [&](const auto *data) { packPanelsOf(k, n, data, b.row, b.column, panels); });
}

template <typename T>
static Strided packBlockOf(int64_t m, int64_t k, const T *a, int64_t row, int64_t column, float *target) {
  // The direction that is contiguous in the source stays so: the product reads single elements.
  if (row == 1) {
    for (int64_t l = 0; l < k; ++l)
      for (int64_t i = 0; i < m; ++i)
        target[l * m + i] = widen(a[i + l * column]);
    return {target, 1, m};
  }
  for (int64_t i = 0; i < m; ++i)
    for (int64_t l = 0; l < k; ++l)
      target[i * k + l] = widen(a[i * row + l * column]);
  return {target, k, 1};
}

Strided packBlock(int64_t m, int64_t k, Source a, float *target) {
  return withElements(a.type, a.data,
                      [&](const auto *data) { return packBlockOf(m, k, data, a.row, a.column, target); });
}

} // namespace tessera::rt::cpu::TESSERA_LEVEL
