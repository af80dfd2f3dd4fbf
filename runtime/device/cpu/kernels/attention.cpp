// Attention of one key head over blocks of query rows and tiles of keys, never holding an s x t matrix: the
// online softmax of FlashAttention (Dao et al., 2022), with causal limits applied per register tile of rows.
#include "runtime/core/philox.h"
#include "runtime/device/attention_order.h"
#include "runtime/device/cpu/kernels/half.h"

namespace tessera::rt::cpu::TESSERA_LEVEL {

/// The number of keys that query row i sees: a prefix.
static inline int64_t visible(const AttentionShape &shape, const AttentionCall &call, int64_t i) {
  if (!shape.causal)
    return call.validT;
  return visibleKeys({call.startS, shape.s, shape.zigzag}, {call.startT, shape.t, shape.zigzag}, i,
                     call.validT);
}

/// The first query row that sees key j, or shape.s.
static inline int64_t firstSeeing(const AttentionShape &shape, const AttentionCall &call, int64_t j) {
  if (!shape.causal)
    return 0;
  const AttentionOrder queries{call.startS, shape.s, shape.zigzag}, keys{call.startT, shape.t, shape.zigzag};
  return queries.before(keys.position(j));
}

/// Hands out pieces of the scratch area, each aligned to a cache line.
struct Scratch {
  float *next;
  float *take(int64_t floats) {
    float *piece = next;
    next += roundUp(floats, 16);
    return piece;
  }
};

/// Element `offset` of `data`; null stays null.
static const void *at(const void *data, Element type, int64_t offset) {
  return data ? static_cast<const char *>(data) + offset * bytesOf(type) : nullptr;
}
static void *at(void *data, Element type, int64_t offset) {
  return data ? static_cast<char *>(data) + offset * bytesOf(type) : nullptr;
}

/// n rows of d elements as f32: where they are, or copied to `room`.
static Strided wideRows(Element type, const void *data, int64_t stride, int64_t n, int64_t d, float *room) {
  if (type == Element::F32)
    return {static_cast<const float *>(data), stride, 1};
  for (int64_t i = 0; i < n; ++i)
    widen(type, at(data, type, i * stride), room + i * d, d);
  return {room, d, 1};
}

/// scores[j] = scale * scores[j] + bias for n keys of one row; `bias` is that of the first.
static void scaleRow(const AttentionShape &shape, const void *bias, float *__restrict scores, int64_t n) {
  const float scale = shape.scale;
  if (!bias) {
    for (int64_t j = 0; j < n; ++j)
      scores[j] *= scale;
    return;
  }
  const int64_t stride = shape.bias[4];
  withElements(shape.biasType, bias, [&](const auto *__restrict b) {
    if (stride == 1)
      for (int64_t j = 0; j < n; ++j)
        scores[j] = scores[j] * scale + widen(b[j]);
    else
      for (int64_t j = 0; j < n; ++j)
        scores[j] = scores[j] * scale + widen(b[j * stride]);
  });
}

/// What `n` weights from number `first` on are multiplied by.
static void dropFactors(const AttentionShape &shape, const AttentionCall &call, int64_t first, int64_t n,
                        float *factors) {
  constexpr int64_t quads = 16;
  for (int64_t quad = first >> 2; quad * 4 < first + n; quad += quads) {
    float block[quads * 4];
    for (int64_t i = 0; i < quads; ++i) {
      const PhiloxWords words = philoxQuad(call.key, call.id, uint64_t(quad + i));
      for (int64_t w = 0; w < 4; ++w)
        block[i * 4 + w] = words.word[w] >= shape.dropBelow ? shape.keptScale : 0.0f;
    }
    const int64_t begin = most(0, first - quad * 4), end = least(quads * 4, first + n - quad * 4);
    __builtin_memcpy(factors + quad * 4 + begin - first, block + begin, (end - begin) * sizeof(float));
  }
}

/// The same for `n` keys from j on of the row whose first weight has the number `row`.
static void dropFactors(const AttentionShape &shape, const AttentionCall &call, int64_t row, int64_t j,
                        int64_t n, float *factors) {
  const AttentionOrder keys{call.startT, shape.t, shape.zigzag};
  // In zig-zag order two runs of keys stand one behind the other.
  const int64_t front = shape.zigzag ? least(n, most(0, keys.chunk() - j)) : n;
  if (front > 0)
    dropFactors(shape, call, row + keys.position(j), front, factors);
  if (front < n)
    dropFactors(shape, call, row + keys.position(j + front), n - front, factors + front);
}

static void clearRows(float *x, int64_t rows, int64_t stride, int64_t d) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t c = 0; c < d; ++c)
      x[i * stride + c] = 0;
}

/// The same of elements of `type`.
static void clearRows(Element type, void *x, int64_t rows, int64_t stride, int64_t d) {
  for (int64_t i = 0; i < rows; ++i)
    __builtin_memset(at(x, type, i * stride), 0, d * bytesOf(type));
}

void attentionForward(const AttentionShape &shape, const AttentionCall &call, int64_t b, int64_t m,
                      int64_t rowBegin, int64_t rowEnd, float *area) {
  const int64_t d = shape.d, dp = roundUp(d, panelWidth), lseRow = shape.kvHeads * shape.group;
  const int64_t rows = least(rowEnd, call.validS);
  const int64_t keys = rows > rowBegin ? visible(shape, call, rows - 1) : 0;
  Scratch scratch{area};
  float *kPanels = scratch.take(roundUp(keys, panelWidth) * d), *vPanels = scratch.take(keys * dp);
  float *scores = scratch.take(attentionRows * attentionKeys), *sum = scratch.take(attentionRows * dp);
  float *highest = scratch.take(attentionRows), *total = scratch.take(attentionRows);
  float *qRows = scratch.take(attentionRows * d);

  const Element type = shape.type;
  const void *k = at(call.k, type, b * shape.k[0] + m * shape.k[2]);
  const void *v = at(call.v, type, b * shape.v[0] + m * shape.v[2]);
  packPanels(d, keys, {k, 1, shape.k[1], type}, kPanels);
  // Values are packed tile by tile of keys, so that a tile's panels are contiguous.
  for (int64_t j = 0; j < keys; j += attentionKeys)
    packPanels(least(attentionKeys, keys - j), d, {at(v, type, j * shape.v[1]), shape.v[1], 1, type},
               vPanels + j * dp);

  for (int64_t g = 0; g < shape.group; ++g) {
    const void *q = at(call.q, type, b * shape.q[0] + m * shape.q[2] + g * shape.q[3]);
    void *out = at(call.out, type, b * shape.o[0] + m * shape.o[2] + g * shape.o[3]);
    float *lse = call.lse + b * shape.s * lseRow + m * shape.group + g;
    const int64_t *dropRows = call.rows + (call.rows ? b * shape.s * lseRow + m * shape.group + g : 0);
    const void *bias =
        at(call.bias, shape.biasType, b * shape.bias[0] + m * shape.bias[1] + g * shape.bias[2]);

    for (int64_t i0 = rowBegin; i0 < rows; i0 += attentionRows) {
      const int64_t n = least(attentionRows, rows - i0);
      for (int64_t r = 0; r < n; ++r) {
        highest[r] = minusInfinity;
        total[r] = 0;
      }
      clearRows(sum, n, dp, dp);
      const Strided qBlock = wideRows(type, at(q, type, i0 * shape.q[1]), shape.q[1], n, d, qRows);
      const int64_t last = visible(shape, call, i0 + n - 1);
      for (int64_t j0 = 0; j0 < last; j0 += attentionKeys)
        for (int64_t r0 = 0; r0 < n; r0 += tileRows) {
          const int64_t count = least(tileRows, n - r0);
          const int64_t limit = least(attentionKeys, visible(shape, call, i0 + r0 + count - 1) - j0);
          if (limit <= 0)
            continue;
          float *s = scores + r0 * attentionKeys;
          product(count, limit, d, {qBlock.data + r0 * qBlock.row, qBlock.row, 1}, kPanels + j0 * d, d, s,
                  attentionKeys, false);
          for (int64_t r = r0; r < r0 + count; ++r) {
            float *row = scores + r * attentionKeys;
            const int64_t seen = most(0, least(limit, visible(shape, call, i0 + r) - j0));
            scaleRow(shape, at(bias, shape.biasType, (i0 + r) * shape.bias[3] + j0 * shape.bias[4]), row,
                     seen);
            const float now = largest(row, seen, highest[r]);
            // A row of nothing but -inf has no maximum to subtract; NaN reaches the sum through its score.
            const float shift = now == minusInfinity ? 0 : now;
            float tileTotal = 0;
            for (int64_t j = 0; j < seen; ++j) {
              row[j] = exponential(row[j] - shift);
              tileTotal += row[j];
            }
            if (shape.keptScale != 0) {
              float factors[attentionKeys];
              dropFactors(shape, call, dropRows[(i0 + r) * lseRow], j0, seen, factors);
              for (int64_t j = 0; j < seen; ++j)
                row[j] *= factors[j];
            }
            for (int64_t j = seen; j < limit; ++j)
              row[j] = 0;
            if (now != highest[r] && j0 > 0) {
              const float factor = exponential(highest[r] - shift);
              total[r] *= factor;
              for (int64_t c = 0; c < dp; ++c)
                sum[r * dp + c] *= factor;
            }
            highest[r] = now;
            total[r] += tileTotal;
          }
          product(count, dp, limit, {s, attentionKeys, 1}, vPanels + j0 * dp, least(attentionKeys, keys - j0),
                  sum + r0 * dp, dp, true);
        }
      for (int64_t r = 0; r < n; ++r) {
        const float inverse = total[r] == 0 ? 0 : 1 / total[r];
        for (int64_t c = 0; c < d; ++c)
          sum[r * dp + c] *= inverse;
        narrow(type, sum + r * dp, at(out, type, (i0 + r) * shape.o[1]), d);
        lse[(i0 + r) * lseRow] = total[r] == 0 ? minusInfinity : highest[r] + __builtin_logf(total[r]);
      }
    }
    for (int64_t i = most(rowBegin, rows); i < rowEnd; ++i) {
      clearRows(type, at(out, type, i * shape.o[1]), 1, 0, d);
      lse[i * lseRow] = 0;
    }
  }
}

void attentionBackward(const AttentionShape &shape, const AttentionCall &call, int64_t b, int64_t m,
                       float *area) {
  const int64_t d = shape.d, dp = roundUp(d, panelWidth), lseRow = shape.kvHeads * shape.group;
  const int64_t rows = call.validS, keys = rows > 0 ? visible(shape, call, rows - 1) : 0;
  const int64_t keysPadded = roundUp(keys, panelWidth);
  Scratch scratch{area};
  float *kPanels = scratch.take(keysPadded * d), *vPanels = scratch.take(keysPadded * d);
  float *kRows = scratch.take(keys * dp), *dk = scratch.take(keys * dp), *dv = scratch.take(keys * dp);
  float *scores = scratch.take(attentionRows * attentionKeys),
        *dScores = scratch.take(attentionRows * attentionKeys);
  float *qRows = scratch.take(attentionRows * dp), *dORows = scratch.take(attentionRows * dp);
  float *dq = scratch.take(attentionRows * dp), *dot = scratch.take(attentionRows);
  float *wideQ = scratch.take(attentionRows * d), *wideDO = scratch.take(attentionRows * d);
  float *wideO = scratch.take(d);

  const Element type = shape.type;
  const void *k = at(call.k, type, b * shape.k[0] + m * shape.k[2]);
  const void *v = at(call.v, type, b * shape.v[0] + m * shape.v[2]);
  packPanels(d, keys, {k, 1, shape.k[1], type}, kPanels);
  packPanels(d, keys, {v, 1, shape.v[1], type}, vPanels);
  for (int64_t j = 0; j < keys; j += attentionKeys)
    packPanels(least(attentionKeys, keys - j), d, {at(k, type, j * shape.k[1]), shape.k[1], 1, type},
               kRows + j * dp);
  clearRows(dk, keys, dp, dp);
  clearRows(dv, keys, dp, dp);

  for (int64_t g = 0; g < shape.group; ++g) {
    const void *q = at(call.q, type, b * shape.q[0] + m * shape.q[2] + g * shape.q[3]);
    const void *o = at(call.o, type, b * shape.o[0] + m * shape.o[2] + g * shape.o[3]);
    const void *dO = at(call.dO, type, b * shape.dO[0] + m * shape.dO[2] + g * shape.dO[3]);
    void *dqOut = at(call.dq, type, b * shape.dq[0] + m * shape.dq[2] + g * shape.dq[3]);
    const float *lse = call.lse + b * shape.s * lseRow + m * shape.group + g;
    const int64_t *dropRows = call.rows + (call.rows ? b * shape.s * lseRow + m * shape.group + g : 0);
    const void *bias =
        at(call.bias, shape.biasType, b * shape.bias[0] + m * shape.bias[1] + g * shape.bias[2]);

    for (int64_t i0 = 0; i0 < rows; i0 += attentionRows) {
      const int64_t n = least(attentionRows, rows - i0);
      const Strided qBlock = wideRows(type, at(q, type, i0 * shape.q[1]), shape.q[1], n, d, wideQ);
      const Strided dOBlock = wideRows(type, at(dO, type, i0 * shape.dO[1]), shape.dO[1], n, d, wideDO);
      packPanels(n, d, {qBlock.data, qBlock.row, 1}, qRows);
      packPanels(n, d, {dOBlock.data, dOBlock.row, 1}, dORows);
      clearRows(dq, n, dp, dp);
      for (int64_t r = 0; r < n; ++r) {
        const float *oRow = wideRows(type, at(o, type, (i0 + r) * shape.o[1]), d, 1, d, wideO).data;
        float sum = 0;
        for (int64_t c = 0; c < d; ++c)
          sum += dOBlock.data[r * dOBlock.row + c] * oRow[c];
        dot[r] = sum;
      }
      const int64_t last = visible(shape, call, i0 + n - 1);
      for (int64_t j0 = 0; j0 < last; j0 += attentionKeys) {
        const int64_t width = least(attentionKeys, last - j0);
        for (int64_t r0 = 0; r0 < n; r0 += tileRows) {
          const int64_t count = least(tileRows, n - r0);
          const int64_t limit = most(0, least(width, visible(shape, call, i0 + r0 + count - 1) - j0));
          float *s = scores + r0 * attentionKeys, *ds = dScores + r0 * attentionKeys;
          if (limit > 0) {
            product(count, limit, d, {qBlock.data + r0 * qBlock.row, qBlock.row, 1}, kPanels + j0 * d, d, s,
                    attentionKeys, false);
            product(count, limit, d, {dOBlock.data + r0 * dOBlock.row, dOBlock.row, 1}, vPanels + j0 * d, d,
                    ds, attentionKeys, false);
          }
          for (int64_t r = r0; r < r0 + count; ++r) {
            float *p = scores + r * attentionKeys, *dRow = dScores + r * attentionKeys;
            const float rowLse = lse[(i0 + r) * lseRow];
            int64_t seen = most(0, least(limit, visible(shape, call, i0 + r) - j0));
            if (rowLse == minusInfinity)
              seen = 0;
            scaleRow(shape, at(bias, shape.biasType, (i0 + r) * shape.bias[3] + j0 * shape.bias[4]), p, seen);
            const float rowDot = dot[r];
            if (shape.keptScale != 0) {
              float factors[attentionKeys];
              dropFactors(shape, call, dropRows[(i0 + r) * lseRow], j0, seen, factors);
              for (int64_t j = 0; j < seen; ++j) {
                const float weight = exponential(p[j] - rowLse);
                dRow[j] = weight * (factors[j] * dRow[j] - rowDot) * shape.scale;
                p[j] = weight * factors[j];
              }
            } else {
              for (int64_t j = 0; j < seen; ++j) {
                p[j] = exponential(p[j] - rowLse);
                dRow[j] = p[j] * (dRow[j] - rowDot) * shape.scale;
              }
            }
            for (int64_t j = seen; j < width; ++j)
              p[j] = dRow[j] = 0;
          }
          if (limit > 0)
            product(count, dp, limit, {ds, attentionKeys, 1}, kRows + j0 * dp,
                    least(attentionKeys, keys - j0), dq + r0 * dp, dp, true);
        }
        // Keys of a register tile meet only the rows from the first that sees them on.
        for (int64_t c0 = 0; c0 < width; c0 += tileRows) {
          const int64_t count = least(tileRows, width - c0);
          const int64_t first = most(0, least(n, firstSeeing(shape, call, j0 + c0) - i0));
          if (first == n)
            continue;
          const int64_t at = first * attentionKeys + c0;
          product(count, dp, n - first, {scores + at, 1, attentionKeys}, dORows + first * panelWidth, n,
                  dv + (j0 + c0) * dp, dp, true);
          product(count, dp, n - first, {dScores + at, 1, attentionKeys}, qRows + first * panelWidth, n,
                  dk + (j0 + c0) * dp, dp, true);
        }
      }
      for (int64_t r = 0; r < n; ++r)
        narrow(type, dq + r * dp, at(dqOut, type, (i0 + r) * shape.dq[1]), d);
    }
    clearRows(type, at(dqOut, type, rows * shape.dq[1]), shape.s - rows, shape.dq[1], d);
  }
  void *dkOut = at(call.dk, type, b * shape.dk[0] + m * shape.dk[2]);
  void *dvOut = at(call.dv, type, b * shape.dv[0] + m * shape.dv[2]);
  for (int64_t j = 0; j < keys; ++j) {
    narrow(type, dk + j * dp, at(dkOut, type, j * shape.dk[1]), d);
    narrow(type, dv + j * dp, at(dvOut, type, j * shape.dv[1]), d);
  }
  clearRows(type, at(dkOut, type, keys * shape.dk[1]), shape.t - keys, shape.dk[1], d);
  clearRows(type, at(dvOut, type, keys * shape.dv[1]), shape.t - keys, shape.dv[1], d);
}

} // namespace tessera::rt::cpu::TESSERA_LEVEL
