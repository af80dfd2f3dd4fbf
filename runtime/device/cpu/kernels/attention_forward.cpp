// Attention of one key head over blocks of query rows and tiles of keys, never holding an s x t matrix: the
// online softmax of FlashAttention (Dao et al., 2022), with causal limits applied per register tile of rows.
#include "runtime/device/cpu/kernels/attention.h"

namespace tessera::rt::cpu::TESSERA_LEVEL {

namespace {

/// The forward of a key head: its keys and values packed, and room for a block of rows.
struct Forward : KeyHead {
  Forward(const AttentionShape &shape, const AttentionCall &call, int64_t b, int64_t m, int64_t rowBegin,
          int64_t rowEnd, float *area);

  float *kPanels;
  float *vPanels; ///< tile by tile of keys, so that a tile's panels are contiguous
  float *scores, *sum;
  float *highest, *total; ///< of each row: the maximum of its scores, the sum of their exponentials
  float *qRows;
};

Forward::Forward(const AttentionShape &shape, const AttentionCall &call, int64_t b, int64_t m,
                 int64_t rowBegin, int64_t rowEnd, float *area)
    : KeyHead(shape, call, b, m, rowBegin, rowEnd) {
  Scratch scratch{area};
  kPanels = scratch.take(roundUp(keys, panelWidth) * d);
  vPanels = scratch.take(keys * dp);
  scores = scratch.take(attentionRows * attentionKeys);
  sum = scratch.take(attentionRows * dp);
  highest = scratch.take(attentionRows);
  total = scratch.take(attentionRows);
  qRows = scratch.take(attentionRows * d);

  const Element type = shape.type;
  const void *k = at(call.k, type, keyOffset(shape.k)), *v = at(call.v, type, keyOffset(shape.v));
  packPanels(d, keys, {k, 1, shape.k[1], type}, kPanels);
  for (int64_t j = 0; j < keys; j += attentionKeys)
    packPanels(least(attentionKeys, keys - j), d, {at(v, type, j * shape.v[1]), shape.v[1], 1, type},
               vPanels + j * dp);
}

} // namespace

/// Makes weights of the scores of row r of a block, those of `limit` keys from j0 on, and brings the row's
/// sums to its new maximum.
static inline void weighRow(const Forward &f, const QueryHead &query, const QueryBlock &block, int64_t r,
                            int64_t j0, int64_t limit) {
  const int64_t i = block.begin + r, seen = f.seen(i, j0, limit);
  float *row = f.scores + r * attentionKeys;
  scaleRow(f.shape, f.biasAt(query, i, j0), row, seen);
  const int64_t whole = roundUp(seen, lanes);
  const float now = largest(row, whole, f.highest[r]);
  // A row of nothing but -inf has no maximum to subtract; NaN reaches the sum through its score.
  const float shift = now == minusInfinity ? 0 : now;
  forWholeVectors(seen, [&](int64_t j) { row[j] = exponential(row[j] - shift); });
  Vector totals{};
  for (int64_t j = 0; j < whole; j += lanes)
    totals += load(row + j);
  const float tileTotal = acrossLanes(totals, [](float a, float b) { return a + b; });
  if (f.shape.keptScale != 0) {
    float factors[attentionKeys];
    dropFactors(f.shape, f.call, query.dropRows[i * f.lseRow], j0, seen, factors);
    for (int64_t j = 0; j < seen; ++j)
      row[j] *= factors[j];
  }
  for (int64_t j = seen; j < limit; ++j)
    row[j] = 0;
  if (now != f.highest[r] && j0 > 0) {
    const float factor = exponential(f.highest[r] - shift);
    f.total[r] *= factor;
    for (int64_t c = 0; c < f.dp; ++c)
      f.sum[r * f.dp + c] *= factor;
  }
  f.highest[r] = now;
  f.total[r] += tileTotal;
}

/// Adds the weighted values of a tile of keys from j0 on to the sums of a register tile of rows from r0 on.
static inline void forwardTile(const Forward &f, const QueryHead &query, const QueryBlock &block, int64_t r0,
                               int64_t j0) {
  const int64_t count = least(tileRows, block.n - r0);
  const int64_t limit = least(attentionKeys, visible(f.shape, f.call, block.begin + r0 + count - 1) - j0);
  if (limit <= 0)
    return;
  float *s = f.scores + r0 * attentionKeys;
  product(count, limit, f.d, {block.q.data + r0 * block.q.row, block.q.row, 1}, f.kPanels + j0 * f.d, f.d, s,
          attentionKeys, false);
  for (int64_t r = r0; r < r0 + count; ++r)
    weighRow(f, query, block, r, j0, limit);
  product(count, f.dp, limit, {s, attentionKeys, 1}, f.vPanels + j0 * f.dp, least(attentionKeys, f.keys - j0),
          f.sum + r0 * f.dp, f.dp, true);
}

/// The results of a block of rows from i0 on.
static inline void forwardBlock(const Forward &f, const QueryHead &query, void *out, int64_t i0) {
  const AttentionShape &shape = f.shape;
  const int64_t n = least(attentionRows, f.rows - i0);
  for (int64_t r = 0; r < n; ++r) {
    f.highest[r] = minusInfinity;
    f.total[r] = 0;
  }
  clearRows(f.sum, n, f.dp, f.dp);
  const QueryBlock block{
      i0, n, wideRows(shape.type, at(query.q, shape.type, i0 * shape.q[1]), shape.q[1], n, f.d, f.qRows)};
  const int64_t last = visible(shape, f.call, i0 + n - 1);
  for (int64_t j0 = 0; j0 < last; j0 += attentionKeys)
    for (int64_t r0 = 0; r0 < n; r0 += tileRows)
      forwardTile(f, query, block, r0, j0);
  for (int64_t r = 0; r < n; ++r) {
    float *row = f.sum + r * f.dp;
    const float total = f.total[r], inverse = total == 0 ? 0 : 1 / total;
    for (int64_t c = 0; c < f.d; ++c)
      row[c] *= inverse;
    narrow(shape.type, row, at(out, shape.type, (i0 + r) * shape.o[1]), f.d);
    query.lse[(i0 + r) * f.lseRow] = total == 0 ? minusInfinity : f.highest[r] + __builtin_logf(total);
  }
}

void attentionForward(const AttentionShape &shape, const AttentionCall &call, int64_t b, int64_t m,
                      int64_t rowBegin, int64_t rowEnd, float *area) {
  const Forward f(shape, call, b, m, rowBegin, rowEnd, area);
  for (int64_t g = 0; g < shape.group; ++g) {
    const QueryHead query = f.query(g);
    void *out = at(call.out, shape.type, f.queryOffset(shape.o, g));
    for (int64_t i0 = rowBegin; i0 < f.rows; i0 += attentionRows)
      forwardBlock(f, query, out, i0);
    for (int64_t i = most(rowBegin, f.rows); i < rowEnd; ++i) {
      clearRows(shape.type, at(out, shape.type, i * shape.o[1]), 1, 0, f.d);
      query.lse[i * f.lseRow] = 0;
    }
  }
}

} // namespace tessera::rt::cpu::TESSERA_LEVEL
