// The gradients of attention, over the same blocks and tiles: the weights are computed again, from what the
// forward has kept of each row.
#include "runtime/device/cpu/kernels/attention.h"

namespace tessera::rt::cpu::TESSERA_LEVEL {

/// The first query row that sees key j, or shape.s.
static inline int64_t firstSeeing(const AttentionShape &shape, const AttentionCall &call, int64_t j) {
  if (!shape.causal)
    return 0;
  const AttentionOrder queries{call.startS, shape.s, shape.zigzag}, keys{call.startT, shape.t, shape.zigzag};
  return queries.before(keys.position(j));
}

namespace {

/// The backward of a key head: its keys and values packed, their gradients, and room for a block of rows.
struct Backward : KeyHead {
  Backward(const AttentionShape &shape, const AttentionCall &call, int64_t b, int64_t m, float *area);

  float *kPanels, *vPanels;
  float *kRows; ///< the keys once more, tile by tile, for the gradients of the queries
  float *dk, *dv;
  float *scores, *dScores;
  float *qRows, *dORows; ///< packed for the gradients of keys and values
  float *dq;
  float *dot; ///< of each row: its gradient times its result
  float *wideQ, *wideDO, *wideO;
};

Backward::Backward(const AttentionShape &shape, const AttentionCall &call, int64_t b, int64_t m, float *area)
    : KeyHead(shape, call, b, m, 0, call.validS) {
  const int64_t keysPadded = roundUp(keys, panelWidth);
  Scratch scratch{area};
  kPanels = scratch.take(keysPadded * d);
  vPanels = scratch.take(keysPadded * d);
  kRows = scratch.take(keys * dp);
  dk = scratch.take(keys * dp);
  dv = scratch.take(keys * dp);
  scores = scratch.take(attentionRows * attentionKeys);
  dScores = scratch.take(attentionRows * attentionKeys);
  qRows = scratch.take(attentionRows * dp);
  dORows = scratch.take(attentionRows * dp);
  dq = scratch.take(attentionRows * dp);
  dot = scratch.take(attentionRows);
  wideQ = scratch.take(attentionRows * d);
  wideDO = scratch.take(attentionRows * d);
  wideO = scratch.take(d);

  const Element type = shape.type;
  const void *k = at(call.k, type, keyOffset(shape.k)), *v = at(call.v, type, keyOffset(shape.v));
  packPanels(d, keys, {k, 1, shape.k[1], type}, kPanels);
  packPanels(d, keys, {v, 1, shape.v[1], type}, vPanels);
  for (int64_t j = 0; j < keys; j += attentionKeys)
    packPanels(least(attentionKeys, keys - j), d, {at(k, type, j * shape.k[1]), shape.k[1], 1, type},
               kRows + j * dp);
  clearRows(dk, keys, dp, dp);
  clearRows(dv, keys, dp, dp);
}

/// A block of query rows with the gradients of their results.
struct BackwardBlock : QueryBlock {
  Strided dO;
};

} // namespace

/// Makes weights of the scores of row r of a block, those of `limit` keys from j0 on, and what the values say
/// of their gradients into those of the scores; zeros behind them up to `width`.
static inline void weighRow(const Backward &f, const QueryHead &query, const QueryBlock &block, int64_t r,
                            int64_t j0, int64_t limit, int64_t width) {
  const AttentionShape &shape = f.shape;
  const int64_t i = block.begin + r;
  float *__restrict p = f.scores + r * attentionKeys, *__restrict dRow = f.dScores + r * attentionKeys;
  const float rowLse = query.lse[i * f.lseRow];
  int64_t seen = f.seen(i, j0, limit);
  if (rowLse == minusInfinity)
    seen = 0;
  scaleRow(shape, f.biasAt(query, i, j0), p, seen);
  const float rowDot = f.dot[r], scale = shape.scale;
  if (shape.keptScale != 0) {
    float factors[attentionKeys];
    dropFactors(shape, f.call, query.dropRows[i * f.lseRow], j0, seen, factors);
    for (int64_t j = 0; j < seen; ++j) {
      const float weight = exponential(p[j] - rowLse);
      dRow[j] = weight * (factors[j] * dRow[j] - rowDot) * scale;
      p[j] = weight * factors[j];
    }
  } else {
    forWholeVectors(seen, [&](int64_t j) {
      p[j] = exponential(p[j] - rowLse);
      dRow[j] = p[j] * (dRow[j] - rowDot) * scale;
    });
  }
  for (int64_t j = seen; j < width; ++j)
    p[j] = dRow[j] = 0;
}

/// The weights of a register tile of rows from r0 on and a tile of `width` keys from j0 on, and their
/// gradients, which are added to those of the queries.
static inline void backwardTile(const Backward &f, const QueryHead &query, const BackwardBlock &block,
                                int64_t r0, int64_t j0, int64_t width) {
  const int64_t d = f.d, dp = f.dp, count = least(tileRows, block.n - r0);
  const int64_t limit = f.seen(block.begin + r0 + count - 1, j0, width);
  float *s = f.scores + r0 * attentionKeys, *ds = f.dScores + r0 * attentionKeys;
  if (limit > 0) {
    product(count, limit, d, {block.q.data + r0 * block.q.row, block.q.row, 1}, f.kPanels + j0 * d, d, s,
            attentionKeys, false);
    product(count, limit, d, {block.dO.data + r0 * block.dO.row, block.dO.row, 1}, f.vPanels + j0 * d, d, ds,
            attentionKeys, false);
  }
  for (int64_t r = r0; r < r0 + count; ++r)
    weighRow(f, query, block, r, j0, limit, width);
  if (limit > 0)
    product(count, dp, limit, {ds, attentionKeys, 1}, f.kRows + j0 * dp, least(attentionKeys, f.keys - j0),
            f.dq + r0 * dp, dp, true);
}

/// Adds what a block of rows says to the gradients of a tile of `width` keys and values from j0 on.
static inline void addToKeys(const Backward &f, const QueryBlock &block, int64_t j0, int64_t width) {
  const int64_t dp = f.dp, n = block.n;
  // Keys of a register tile meet only the rows from the first that sees them on.
  for (int64_t c0 = 0; c0 < width; c0 += tileRows) {
    const int64_t count = least(tileRows, width - c0);
    const int64_t first = most(0, least(n, firstSeeing(f.shape, f.call, j0 + c0) - block.begin));
    if (first == n)
      continue;
    const int64_t at = first * attentionKeys + c0;
    product(count, dp, n - first, {f.scores + at, 1, attentionKeys}, f.dORows + first * panelWidth, n,
            f.dv + (j0 + c0) * dp, dp, true);
    product(count, dp, n - first, {f.dScores + at, 1, attentionKeys}, f.qRows + first * panelWidth, n,
            f.dk + (j0 + c0) * dp, dp, true);
  }
}

/// The gradients of a block of queries from i0 on, and its part of those of the keys and values. `o`, `dO`
/// and `dqOut` are the query head's.
static inline void backwardBlock(const Backward &f, const QueryHead &query, const void *o, const void *dO,
                                 void *dqOut, int64_t i0) {
  const AttentionShape &shape = f.shape;
  const Element type = shape.type;
  const int64_t d = f.d, dp = f.dp, n = least(attentionRows, f.rows - i0);
  const BackwardBlock block{
      {i0, n, wideRows(type, at(query.q, type, i0 * shape.q[1]), shape.q[1], n, d, f.wideQ)},
      wideRows(type, at(dO, type, i0 * shape.dO[1]), shape.dO[1], n, d, f.wideDO)};
  packPanels(n, d, {block.q.data, block.q.row, 1}, f.qRows);
  packPanels(n, d, {block.dO.data, block.dO.row, 1}, f.dORows);
  clearRows(f.dq, n, dp, dp);
  for (int64_t r = 0; r < n; ++r) {
    const float *oRow = wideRows(type, at(o, type, (i0 + r) * shape.o[1]), d, 1, d, f.wideO).data;
    float sum = 0;
    for (int64_t c = 0; c < d; ++c)
      sum += block.dO.data[r * block.dO.row + c] * oRow[c];
    f.dot[r] = sum;
  }
  const int64_t last = visible(shape, f.call, i0 + n - 1);
  for (int64_t j0 = 0; j0 < last; j0 += attentionKeys) {
    const int64_t width = least(attentionKeys, last - j0);
    for (int64_t r0 = 0; r0 < n; r0 += tileRows)
      backwardTile(f, query, block, r0, j0, width);
    addToKeys(f, block, j0, width);
  }
  for (int64_t r = 0; r < n; ++r)
    narrow(type, f.dq + r * dp, at(dqOut, type, (i0 + r) * shape.dq[1]), d);
}

void attentionBackward(const AttentionShape &shape, const AttentionCall &call, int64_t b, int64_t m,
                       float *area) {
  const Backward f(shape, call, b, m, area);
  const Element type = shape.type;
  const int64_t d = f.d, dp = f.dp, rows = f.rows, keys = f.keys;
  for (int64_t g = 0; g < shape.group; ++g) {
    const QueryHead query = f.query(g);
    const void *o = at(call.o, type, f.queryOffset(shape.o, g));
    const void *dO = at(call.dO, type, f.queryOffset(shape.dO, g));
    void *dqOut = at(call.dq, type, f.queryOffset(shape.dq, g));
    for (int64_t i0 = 0; i0 < rows; i0 += attentionRows)
      backwardBlock(f, query, o, dO, dqOut, i0);
    clearRows(type, at(dqOut, type, rows * shape.dq[1]), shape.s - rows, shape.dq[1], d);
  }
  void *dkOut = at(call.dk, type, f.keyOffset(shape.dk)), *dvOut = at(call.dv, type, f.keyOffset(shape.dv));
  for (int64_t j = 0; j < keys; ++j) {
    narrow(type, f.dk + j * dp, at(dkOut, type, j * shape.dk[1]), d);
    narrow(type, f.dv + j * dp, at(dvOut, type, j * shape.dv[1]), d);
  }
  clearRows(type, at(dkOut, type, keys * shape.dk[1]), shape.t - keys, shape.dk[1], d);
  clearRows(type, at(dvOut, type, keys * shape.dv[1]), shape.t - keys, shape.dv[1], d);
}

} // namespace tessera::rt::cpu::TESSERA_LEVEL
