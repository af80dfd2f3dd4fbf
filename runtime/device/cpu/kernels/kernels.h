// The vectorised inner loops of the library, compiled once per CPU level (x86-64-v3 and -v4) and chosen at
// start. Files in this folder use no inline code of the standard library: the linker could keep a copy of it
// that the machine cannot execute.
#pragma once

#include "runtime/device/element.h"
#include "runtime/device/update_step.h"

#include <cstdint>

namespace tessera::rt::cpu {

/// A matrix operand: element (i, j) is `data[i * row + j * column]`.
struct Strided {
  const float *data;
  int64_t row, column;
};

/// The same of elements of any type, which packing makes f32.
struct Source {
  const void *data;
  int64_t row, column;
  Element type = Element::F32;
};

/// Elements of a parameter and of what its optimizer keeps; m is a momentum, too. Null where there is none.
struct UpdateState {
  float *p, *m, *v;
};

/// Sizes and strides (elements) of one attention call, see attention_forward in library.h.
struct AttentionShape {
  int64_t batch, s, t, kvHeads, group, d;
  float scale;
  bool causal;
  int64_t zigzag;     ///< blocks of the sequence in zig-zag order, 0: in order
  float keptScale;    ///< of a dropout: what the weights that are kept are multiplied by; 0: none are dropped
  uint32_t dropBelow; ///< and the words of those that are not
  Element type, biasType; ///< of q, k, v, o and their gradients; of the bias
  int64_t q[4], k[3], v[3], o[4], bias[5];
  int64_t dO[4], dq[4], dk[3], dv[3];
};

/// What changes from call to call. Pointers are null where the call has no such buffer.
struct AttentionCall {
  const void *q, *k, *v, *bias, *o, *dO;
  float *lse;
  void *out, *dq, *dk, *dv;
  const int64_t *rows; ///< of a dropout: the number of each row's first weight, as lse
  int64_t validS, validT, startS, startT;
  uint64_t key, id; ///< of a dropout
};

/// What follows a product.
enum class Activation { None, GeluTanh, GeluErf, Relu, Silu };
/// What the activation is applied to: kept beside its result for the backward, or given there, which
/// multiplies with the activation's derivative at it.
enum class PreActivation { None, Kept, Given };

struct Kernels {
  const char *level;

  /// c[m x n] (row stride ldc) = or += a b. `panels`: b packed by packPanels with depth panelDepth >= k.
  /// Reads and writes exactly m x n of c.
  void (*product)(int64_t m, int64_t n, int64_t k, Strided a, const float *panels, int64_t panelDepth,
                  float *c, int64_t ldc, bool accumulate);
  /// The same for b in rows `ldb` apart, each readable up to roundUp(n, panelColumns).
  void (*productRows)(int64_t m, int64_t n, int64_t k, Strided a, const float *b, int64_t ldb, float *c,
                      int64_t ldc, bool accumulate);
  /// Packs b[k x n] into panels of the level's width: [ceil(n / width)][k][width], zeros beyond n. At most
  /// k * roundUp(n, panelColumns) floats.
  void (*packPanels)(int64_t k, int64_t n, Source b, float *panels);
  /// Copies the block a[m x k] to `target` (m * k floats); the result says how it lies there.
  Strided (*packBlock)(int64_t m, int64_t k, Source a, float *target);
  /// Packs a[m x k] into panels of the level's tile: [ceil(m / rows)][k][rows], zeros beyond m.
  void (*packRows)(int64_t m, int64_t k, Source a, float *panels);
  /// c[m x n] = or += a b of panels by packRows and packPanels of depth k.
  void (*productPanels)(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c,
                        int64_t ldc, bool accumulate);
  /// A block of rows: x = c + bias (which may be null); c = activation(x), x kept in `pre`, or given `pre`,
  /// c = x activation'(pre). `pre` has rows ldPre apart.
  void (*finish)(int64_t m, int64_t n, float *c, int64_t ldc, const float *bias, Activation activation,
                 PreActivation use, float *pre, int64_t ldPre);
  /// n elements of `type` as f32, and f32 rounded to them.
  void (*widen)(Element type, const void *from, float *to, int64_t n);
  void (*narrow)(Element type, const float *from, void *to, int64_t n);
  /// target[j * ldt + i] = source[i * lds + j] for any 4-byte elements (they are only moved).
  void (*transpose)(int64_t rows, int64_t columns, const float *source, int64_t lds, float *target,
                    int64_t ldt);

  /// Rows [rowBegin, rowEnd) of all query heads of (batch item b, key head m).
  void (*attentionForward)(const AttentionShape &, const AttentionCall &, int64_t b, int64_t m,
                           int64_t rowBegin, int64_t rowEnd, float *scratch);
  /// All gradients of (batch item b, key head m).
  void (*attentionBackward)(const AttentionShape &, const AttentionCall &, int64_t b, int64_t m,
                            float *scratch);

  float (*rowMax)(const float *x, int64_t n);
  /// The sum of exp(x - shift).
  float (*expSum)(const float *x, int64_t n, float shift);
  /// y = scale * exp(x - shift).
  void (*expScaled)(const float *x, float *y, int64_t n, float shift, float scale);

  double (*sumSquares)(const float *x, int64_t n);
  void (*add)(float *y, const float *x, int64_t n);
  /// One step of an optimizer, from `from` to `to`, which is the same or shares no byte with it.
  void (*adamw)(const UpdateStep &, const UpdateState &from, const float *g, const UpdateState &to,
                int64_t n);
  void (*adam)(const UpdateStep &, const UpdateState &from, const float *g, const UpdateState &to, int64_t n);
  void (*sgd)(const UpdateStep &, const UpdateState &from, const float *g, const UpdateState &to, int64_t n);
  void (*sgdMomentum)(const UpdateStep &, const UpdateState &from, const float *g, const UpdateState &to,
                      int64_t n);
};

namespace v3 {
extern const Kernels kernels;
}
namespace v4 {
extern const Kernels kernels;
}

} // namespace tessera::rt::cpu
