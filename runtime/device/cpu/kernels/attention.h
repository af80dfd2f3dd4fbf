// What both directions of attention are made of: which rows and keys a head computes with, and what is done
// with a row of scores. Included by kernel files only.
#pragma once

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

/// Element `offset` of `data`; null stays null.
static inline const void *at(const void *data, Element type, int64_t offset) {
  return data ? static_cast<const char *>(data) + offset * bytesOf(type) : nullptr;
}
static inline void *at(void *data, Element type, int64_t offset) {
  return data ? static_cast<char *>(data) + offset * bytesOf(type) : nullptr;
}

/// n rows of d elements as f32: where they are, or copied to `room`.
static inline Strided wideRows(Element type, const void *data, int64_t stride, int64_t n, int64_t d,
                               float *room) {
  if (type == Element::F32)
    return {static_cast<const float *>(data), stride, 1};
  for (int64_t i = 0; i < n; ++i)
    widen(type, at(data, type, i * stride), room + i * d, d);
  return {room, d, 1};
}

/// scores[j] = scale * scores[j] + bias for n keys of one row; `bias` is that of the first. Those behind them
/// up to a whole vector, which are anything, become -inf: their weight is 0.
static inline void scaleRow(const AttentionShape &shape, const void *bias, float *__restrict scores,
                            int64_t n) {
  const float scale = shape.scale;
  const int64_t stride = shape.bias[4];
  if (!bias)
    forWholeVectors(n, [&](int64_t j) { scores[j] *= scale; });
  else
    withElements(shape.biasType, bias, [&](const auto *__restrict b) {
      if (stride == 1)
        for (int64_t j = 0; j < n; ++j)
          scores[j] = scores[j] * scale + widen(b[j]);
      else
        for (int64_t j = 0; j < n; ++j)
          scores[j] = scores[j] * scale + widen(b[j * stride]);
    });
  for (int64_t j = n; j < roundUp(n, lanes); ++j)
    scores[j] = minusInfinity;
}

/// What `n` weights from number `first` on are multiplied by.
static inline void dropFactors(const AttentionShape &shape, const AttentionCall &call, int64_t first,
                               int64_t n, float *factors) {
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
static inline void dropFactors(const AttentionShape &shape, const AttentionCall &call, int64_t row, int64_t j,
                               int64_t n, float *factors) {
  const AttentionOrder keys{call.startT, shape.t, shape.zigzag};
  // In zig-zag order two runs of keys stand one behind the other.
  const int64_t front = shape.zigzag ? least(n, most(0, keys.chunk() - j)) : n;
  if (front > 0)
    dropFactors(shape, call, row + keys.position(j), front, factors);
  if (front < n)
    dropFactors(shape, call, row + keys.position(j + front), n - front, factors + front);
}

static inline void clearRows(float *x, int64_t rows, int64_t stride, int64_t d) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t c = 0; c < d; ++c)
      x[i * stride + c] = 0;
}

/// The same of elements of `type`.
static inline void clearRows(Element type, void *x, int64_t rows, int64_t stride, int64_t d) {
  for (int64_t i = 0; i < rows; ++i)
    __builtin_memset(at(x, type, i * stride), 0, d * bytesOf(type));
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

/// One query head: where its rows begin.
struct QueryHead {
  const void *q, *bias;
  float *lse;
  const int64_t *dropRows;
};

/// One key head of an item of the batch, and how many query rows and keys of it are computed with.
struct KeyHead {
  KeyHead(const AttentionShape &shape, const AttentionCall &call, int64_t b, int64_t m, int64_t rowBegin,
          int64_t rowEnd)
      : shape(shape), call(call), b(b), m(m), d(shape.d), dp(roundUp(d, panelWidth)),
        lseRow(shape.kvHeads * shape.group), rows(least(rowEnd, call.validS)),
        keys(rows > rowBegin ? visible(shape, call, rows - 1) : 0) {}

  int64_t keyOffset(const int64_t (&strides)[3]) const { return b * strides[0] + m * strides[2]; }
  int64_t queryOffset(const int64_t (&strides)[4], int64_t g) const {
    return b * strides[0] + m * strides[2] + g * strides[3];
  }
  QueryHead query(int64_t g) const {
    const int64_t row = b * shape.s * lseRow + m * shape.group + g;
    return {at(call.q, shape.type, queryOffset(shape.q, g)),
            at(call.bias, shape.biasType, b * shape.bias[0] + m * shape.bias[1] + g * shape.bias[2]),
            call.lse + row, call.rows + (call.rows ? row : 0)};
  }
  /// How many of `limit` keys from j on row i sees.
  int64_t seen(int64_t i, int64_t j, int64_t limit) const {
    return most(0, least(limit, visible(shape, call, i) - j));
  }
  /// The bias of row i from key j on.
  const void *biasAt(const QueryHead &query, int64_t i, int64_t j) const {
    return at(query.bias, shape.biasType, i * shape.bias[3] + j * shape.bias[4]);
  }

  const AttentionShape &shape;
  const AttentionCall &call;
  int64_t b, m;
  int64_t d, dp;  ///< the size of a head, and in whole panels
  int64_t lseRow; ///< the distance of rows in lse
  int64_t rows, keys;
};

/// A block of query rows of one head.
struct QueryBlock {
  int64_t begin, n;
  Strided q;
};

} // namespace tessera::rt::cpu::TESSERA_LEVEL
