// Attention, streamed: no matrix of scores. A warp owns a row of the result; 32 rows of the other side at a
// time, one a lane for the scores, then one element of the head a lane for the sums. T: what q, k, v and o
// are; sums are f32.
#include "runtime/core/philox.h"
#include "runtime/device/attention_order.h"
#include "runtime/device/cuda/kernels/gpu.h"
#include "runtime/device/half.h"

using namespace tessera::rt;
using namespace tessera::rt::cuda;

namespace {
constexpr int64_t parts = attentionHead / lanes;

struct Row {
  int64_t b, i, m, g; ///< batch, position, key head, query head of the group
};

int64_t at(const int64_t (&strides)[4], const Row &r) {
  return r.b * strides[0] + r.i * strides[1] + r.m * strides[2] + r.g * strides[3];
}
int64_t at(const int64_t (&strides)[3], const Row &r, int64_t j) {
  return r.b * strides[0] + j * strides[1] + r.m * strides[2];
}

/// From element `i` on.
template <typename T> const T *from(const void *data, int64_t i) { return static_cast<const T *>(data) + i; }
template <typename T> T *from(void *data, int64_t i) { return static_cast<T *>(data) + i; }

template <typename T> float dot(const T *x, const T *y, int64_t d) {
  float sum = 0;
  for (int64_t i = 0; i < d; ++i)
    sum = __builtin_fmaf(widen(x[i]), widen(y[i]), sum);
  return sum;
}

/// -infinity where query r.i does not see key j.
template <typename T> float score(const AttentionArguments &a, const Row &r, int64_t j) {
  if (j >= a.validT || (a.causal && AttentionOrder{a.startS, a.s, a.zigzag}.position(r.i) <
                                        AttentionOrder{a.startT, a.t, a.zigzag}.position(j)))
    return -infinity;
  float s = a.scale * dot(from<T>(a.q, at(a.qStrides, r)), from<T>(a.k, at(a.kStrides, r, j)), a.d);
  if (!a.bias)
    return s;
  return s + readElement(a.biasType, a.bias,
                         at(reinterpret_cast<const int64_t (&)[4]>(a.biasStrides), {r.b, r.m, r.g, r.i}) +
                             j * a.biasStrides[4]);
}

/// What a dropout multiplies the weight of key j of row `number` by.
float dropFactor(const AttentionArguments &a, int64_t number, int64_t j) {
  if (!a.key)
    return 1;
  uint64_t element = uint64_t(a.rows[number] + AttentionOrder{a.startT, a.t, a.zigzag}.position(j));
  PhiloxWords words = philoxQuad(*a.key, a.id, element >> 2);
  uint32_t low = element & 1 ? words.word[1] : words.word[0],
           high = element & 1 ? words.word[3] : words.word[2];
  return (element & 2 ? high : low) >= a.dropBelow ? a.keptScale : 0.0f;
}

/// This warp's among all.
int64_t warpNumber() { return blockIndex() * attentionWarps + threadIndex() / lanes; }

/// The row of a number among [batch, s, kvHeads, group], and whether there is one.
bool findRow(const AttentionArguments &a, Row &r, int64_t number) {
  int64_t rest = number;
  r.g = rest % a.group;
  rest /= a.group;
  r.m = rest % a.kvHeads;
  rest /= a.kvHeads;
  r.i = rest % a.s;
  r.b = rest / a.s;
  return r.b < a.batch;
}

template <typename T> void forward(const AttentionArguments &a, int64_t number) {
  TSR_SHARED float shared[attentionWarps][lanes];
  Row r;
  int64_t lane = threadIndex() % lanes, warp = threadIndex() / lanes;
  if (!findRow(a, r, number))
    return;
  float maximum = -infinity, total = 0, sum[parts] = {};
  int64_t keys = r.i < a.validS ? a.validT : 0;
  for (int64_t first = 0; first < keys; first += lanes) {
    float s = score<T>(a, r, first + lane), highest = larger(warpMax(s), maximum);
    if (highest == -infinity) // nothing is seen so far
      continue;
    float p = exponential(s - highest), before = exponential(maximum - highest);
    total = total * before + warpSum(p);
    maximum = highest;
    shared[warp][lane] = p == 0 ? 0.0f : p * dropFactor(a, number, first + lane);
    syncWarp();
#pragma unroll
    for (int64_t part = 0; part < parts; ++part) {
      int64_t e = part * lanes + lane;
      sum[part] *= before;
      for (int64_t j = 0; j < lanes && first + j < a.validT && e < a.d; ++j)
        if (shared[warp][j] != 0) // what is not seen may be NaN
          sum[part] = __builtin_fmaf(shared[warp][j], widen(*from<T>(a.v, at(a.vStrides, r, first + j) + e)),
                                     sum[part]);
    }
    syncWarp();
  }
#pragma unroll
  for (int64_t part = 0; part < parts; ++part)
    if (int64_t e = part * lanes + lane; e < a.d)
      narrow(total == 0 ? 0.0f : sum[part] / total, *from<T>(a.out, at(a.oStrides, r) + e));
  if (lane == 0)
    a.lse[number] = r.i >= a.validS ? 0.0f : maximum == -infinity ? -infinity : maximum + logarithm(total);
}

/// Rows whose sum is not finite, after another has done all.
template <typename T> void forwardAgain(const AttentionArguments &a) {
  int64_t first = warpNumber() * attentionAgainRows, rows = a.batch * a.s * a.kvHeads * a.group;
  for (int64_t number = first; number < first + attentionAgainRows && number < rows; ++number) {
    bool finite = __builtin_fabsf(a.lse[number]) < infinity;
    syncWarp(); // all have read it before it is written
    if (!finite)
      forward<T>(a, number);
  }
}

/// Of query r and key j: the probability, and the gradient of the score times scale.
template <typename T>
float probability(const AttentionArguments &a, const Row &r, int64_t j, int64_t number) {
  float lse = a.lse[number], s = score<T>(a, r, j);
  return lse == -infinity || s == -infinity ? 0.0f : exponential(s - lse);
}
template <typename T>
float scoreGradient(const AttentionArguments &a, const Row &r, int64_t j, float p, float factor,
                    float product) {
  return p *
         (factor * dot(from<T>(a.dO, at(a.dOStrides, r)), from<T>(a.v, at(a.vStrides, r, j)), a.d) -
          product) *
         a.scale;
}
/// The product of query r's result and its gradient.
template <typename T> float resultProduct(const AttentionArguments &a, const Row &r) {
  return dot(from<T>(a.dO, at(a.dOStrides, r)), from<T>(a.o, at(a.oStrides, r)), a.d);
}

template <typename T> void backwardQueries(const AttentionArguments &a) {
  TSR_SHARED float shared[attentionWarps][lanes];
  Row r;
  int64_t number = warpNumber(), lane = threadIndex() % lanes, warp = threadIndex() / lanes;
  if (!findRow(a, r, number))
    return;
  float sum[parts] = {};
  int64_t keys = r.i < a.validS ? a.validT : 0;
  float product = keys ? resultProduct<T>(a, r) : 0;
  for (int64_t first = 0; first < keys; first += lanes) {
    float p = probability<T>(a, r, first + lane, number);
    shared[warp][lane] =
        p == 0 ? 0.0f : scoreGradient<T>(a, r, first + lane, p, dropFactor(a, number, first + lane), product);
    syncWarp();
#pragma unroll
    for (int64_t part = 0; part < parts; ++part) {
      int64_t e = part * lanes + lane;
      for (int64_t j = 0; j < lanes && first + j < a.validT && e < a.d; ++j)
        if (shared[warp][j] != 0)
          sum[part] = __builtin_fmaf(shared[warp][j], widen(*from<T>(a.k, at(a.kStrides, r, first + j) + e)),
                                     sum[part]);
    }
    syncWarp();
  }
#pragma unroll
  for (int64_t part = 0; part < parts; ++part)
    if (int64_t e = part * lanes + lane; e < a.d)
      narrow(sum[part], *from<T>(a.dq, at(a.dqStrides, r) + e));
}

template <typename T> void backwardKeys(const AttentionArguments &a) {
  TSR_SHARED float shared[attentionWarps][2][lanes];
  int64_t lane = threadIndex() % lanes, warp = threadIndex() / lanes, rest = warpNumber();
  Row r{};
  r.m = rest % a.kvHeads;
  rest /= a.kvHeads;
  int64_t j = rest % a.t;
  r.b = rest / a.t;
  if (r.b >= a.batch)
    return;
  float dk[parts] = {}, dv[parts] = {};
  for (int64_t g = 0; g < a.group; ++g)
    for (int64_t first = 0; first < a.validS && j < a.validT; first += lanes) {
      Row query{r.b, first + lane, r.m, g};
      int64_t number = ((r.b * a.s + query.i) * a.kvHeads + r.m) * a.group + g;
      float p = query.i < a.validS ? probability<T>(a, query, j, number) : 0.0f;
      float factor = p == 0 ? 0.0f : dropFactor(a, number, j);
      shared[warp][0][lane] = p * factor;
      shared[warp][1][lane] =
          p == 0 ? 0.0f : scoreGradient<T>(a, query, j, p, factor, resultProduct<T>(a, query));
      syncWarp();
#pragma unroll
      for (int64_t part = 0; part < parts; ++part) {
        int64_t e = part * lanes + lane;
        for (int64_t i = 0; i < lanes && e < a.d; ++i) {
          Row other{r.b, first + i, r.m, g};
          if (shared[warp][0][i] == 0 && shared[warp][1][i] == 0)
            continue;
          dv[part] =
              __builtin_fmaf(shared[warp][0][i], widen(*from<T>(a.dO, at(a.dOStrides, other) + e)), dv[part]);
          dk[part] =
              __builtin_fmaf(shared[warp][1][i], widen(*from<T>(a.q, at(a.qStrides, other) + e)), dk[part]);
        }
      }
      syncWarp();
    }
#pragma unroll
  for (int64_t part = 0; part < parts; ++part)
    if (int64_t e = part * lanes + lane; e < a.d) {
      narrow(dk[part], *from<T>(a.dk, at(a.dkStrides, r, j) + e));
      narrow(dv[part], *from<T>(a.dv, at(a.dvStrides, r, j) + e));
    }
}
} // namespace

TSR_KERNEL(attention_forward, AttentionArguments) { forward<float>(a, warpNumber()); }
TSR_KERNEL(attention_forward_bf16, AttentionArguments) { forward<BFloat16>(a, warpNumber()); }
TSR_KERNEL(attention_forward_f16, AttentionArguments) { forward<Float16>(a, warpNumber()); }
TSR_KERNEL(attention_forward_again_bf16, AttentionArguments) { forwardAgain<BFloat16>(a); }
TSR_KERNEL(attention_forward_again_f16, AttentionArguments) { forwardAgain<Float16>(a); }
TSR_KERNEL(attention_turn_infinities, AttentionArguments) {
  int64_t i = elementIndex();
  if (i < a.batch * a.s * a.kvHeads * a.group && __builtin_fabsf(a.lse[i]) == infinity)
    a.lse[i] = -a.lse[i];
}
TSR_KERNEL(attention_backward_q, AttentionArguments) { backwardQueries<float>(a); }
TSR_KERNEL(attention_backward_q_bf16, AttentionArguments) { backwardQueries<BFloat16>(a); }
TSR_KERNEL(attention_backward_q_f16, AttentionArguments) { backwardQueries<Float16>(a); }
TSR_KERNEL(attention_backward_kv, AttentionArguments) { backwardKeys<float>(a); }
TSR_KERNEL(attention_backward_kv_bf16, AttentionArguments) { backwardKeys<BFloat16>(a); }
TSR_KERNEL(attention_backward_kv_f16, AttentionArguments) { backwardKeys<Float16>(a); }
