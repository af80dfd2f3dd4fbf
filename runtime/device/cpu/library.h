// The library functions that `"op": "call"` of the program description names: their contract, how they are
// prepared and how they are called. A call is prepared once at load: attributes are parsed and checked and
// primitives created, so that a step parses, creates and allocates nothing.
//
// Conventions
//  - Everything is f32 unless said otherwise, and so is arithmetic: bf16 and f16 are widened when they are
//  read and rounded when they are
//    written. Arrays are contiguous and row-major unless strides are given.
//    Strides, offsets and counts are in elements.
//  - Attributes are JSON numbers, booleans, strings or lists. `name=x` is optional with default x. `dtype` is
//    a name of the program description.
//  - A buffer in brackets is present exactly when the boolean attribute of its name is true.
//  - Scalars are evaluated EXPRs in the order given; those in brackets may be left off from the end.
//  - `workspace`: the function takes scratch as one more, last buffer, present exactly when the attribute
//    `workspace` (its bytes) is > 0. The named formula of workspace.h says how much to reserve. Less than
//    this machine needs is an error when the program is loaded, with both numbers.
//  - What is written overlaps nothing else that is read or written, except where a function says "in place":
//    then the same buffer is passed twice. (Disjoint parts of one buffer are fine: packed Q, K, V.)
//  - Padding is not read where a scalar says what is valid; elsewhere it is data.
//  - Results do not depend on the number of threads.
//
// gemm
//   buffers: A, B, C, [bias], [pre_activation], [sums], workspace (gemmWorkspaceBytes)
//   attrs:   m, n, k, a=[m stride, k stride], b=[k stride, n stride], c=[m stride, n stride],
//            batch=[[size, sa, sb, sc]...] (default none), accumulate=false, bias=false,
//            activation="none" | "gelu_tanh" | "gelu_erf" | "relu" | "silu",
//            pre_activation="none" | "kept" | "given", sums="none" | "a" | "b", a_offset=0, b_offset=0,
//            c_offset=0, dtype="f32" | "bf16" | "f16" (of A and B), c_dtype=dtype | "f32" (of all others)
//   x = A B + (accumulate ? C : 0) + bias[n] and C = activation(x) for every batch item. A batch dimension
//   with sc = 0 is summed over (then C's other strides still address each element once). k = 0 gives A B = 0.
//   pre_activation has C's strides and offset. kept: it gets x. given: it is read, and C = x activation'(it),
//   the cotangent of what the activation was applied to. sums: of A [m] or of B [n], contiguous, over k and
//   the batch dimensions, all of which have sc = 0: the gradient of a bias.
// attention_forward
//   buffers: q, k, v, [bias], o, lse, [key, rows], workspace (attentionForwardWorkspaceBytes)
//   attrs:   batch, s, t, kv_heads, group, d, scale, causal=false, bias=false, zigzag=0,
//            q_strides=[b,s,m,g], k_strides=[b,t,m], v_strides=[b,t,m], o_strides=[b,s,m,g],
//            bias_strides=[b,m,g,s,t], q_offset=0, k_offset=0, v_offset=0, o_offset=0,
//            dtype="f32" | "bf16" | "f16" (of q, k, v, o and their gradients), bias_dtype="f32"
//   scalars: [valid_s, valid_t, start_s, start_t], id with dropout
//   q, o: [b,s,m,g,d], k, v: [b,t,m,d], by strides; the stride along d is 1. lse [b,s,m,g] is contiguous: the
//   log of the sum of exp(scale q.k + bias). Broadcast dimensions of the bias have stride 0. causal: query i
//   sees key j when start_s + i >= start_t + j; with zigzag = n rows stand where
//   runtime/device/attention_order.h says. A row that sees no key (or only bias -inf) gives o = 0 and lse =
//   -inf. Keys >= valid_t are ignored even when NaN; rows >= valid_s give o = 0, lse = 0.
//   With `dropout` = ratio: key is the step's (one i64), rows [b,s,m,g] (i64) the number of each row's first
//   weight, and the scalars are five, the last the operator's id. The weight of the key at position p is
//   kept, and divided by 1 - ratio, where the word of number row + p is high enough (runtime/core/philox.h).
// attention_backward
//   buffers: q, k, v, [bias], o, lse, do, dq, dk, dv, [key, rows], workspace
//   (attentionBackwardWorkspaceBytes) attrs:   those of attention_forward, do_strides=o_strides,
//   do_offset=o_offset, and dq_strides=q_strides,
//            dq_offset=q_offset, the same for dk and dv
//   scalars: as attention_forward
//   Rows of dq >= valid_s and of dk, dv >= valid_t are set to 0. The bias gets no gradient.
// conv_forward
//   buffers: x [b,ci,h,w], w [co,ci/groups,kh,kw], y [b,co,oh,ow], [bias], workspace (convWorkspaceBytes)
//   attrs:   batch, in_channels, out_channels, groups=1, in=[h,w], out=[oh,ow], kernel=[kh,kw],
//            strides=[1,1], pads=[top,left] (begin only: the end follows from `out`), dilations=[1,1],
//            bias=false
//   All lists have one element for a one-dimensional convolution.
// conv_backward_data
//   buffers: w, dy, dx, workspace (convWorkspaceBytes); attrs: as conv_forward
// conv_backward_weights
//   buffers: x, dy, dw, [bias] (the gradient of the bias), workspace (convWorkspaceBytes)
//   attrs:   as conv_forward
// max_pool_backward
//   buffers: chosen [images,out] (i32), dy [images,out], dx [images,in]
//   attrs:   images, in, out, kernel, strides, pads (begin only), dilations, a list each of one to three
//            dimensions
//   dx = the sum of the dy of those windows that chose the element: `chosen` is its number in the window,
//   row-major; of no element where there is none. Of hosts only.
// convert
//   buffers: source (f32), target; attrs: count, dtype="f32" | "bf16" | "f16" (of the target)
//   target[i] = source[i], to nearest, ties to even. Of hosts only.
// gather
//   buffers: table, ids, out; attrs: rows, width, count, ids="i64" | "i32", dtype="f32"
//   scalars: [start, valid]
//   out[i] = table[ids[i] - start]; ids outside [start, start + rows) and positions i >= valid give zeros.
// scatter_add
//   buffers: ids, dy, table; attrs: rows, width, count, ids="i64" | "i32", accumulate=false
//   scalars: [start, valid]
//   table (first -0, unless accumulate) += dy[i] at row ids[i] - start, in the order of i; ids outside
//   [start, start + rows) and positions i >= valid are skipped.
// fill
//   buffers: out; attrs: count, value=0, dtype="f32"
// copy_box
//   buffers: source, target
//   attrs:   shape, source_strides, target_strides, source_offset=0, target_offset=0, dtype="f32"
//   scalars: [source_offset, target_offset], added to those of the attributes
//   Any source strides (0 is a broadcast); target strides must address each element once.
// transpose
//   buffers: source, target; attrs: shape (of the source), perm, dtype="f32"
//   Dimension j of the target is dimension perm[j] of the source.
// mask_padding
//   buffers: x, [out]; attrs: outer, n, inner, value=0, out=false, piece=0, dtype="f32"; scalars: valid,
//   [start] x as [outer, n, inner]: positions >= valid of the middle dimension get `value`; in place, or in a
//   copy. With `piece` x is only that many elements of it, from `start` on; what lies behind its end is left
//   as it is.
// logical_index
//   buffers: out (i64); attrs: count; scalars: start
//   out[i] = start + i.
// sum_squares
//   buffers: in_0 ... in_p-1, out; attrs: counts=[count_0 ... count_p-1]; scalars: none or valid_0 ...
//   valid_p-1 out[0] = the sum of the squares of the first valid_i (without scalars: all) elements of every
//   input, added in f64. {"valid": replicas, "block": count, "size": count} counts a replicated input on one
//   rank only.
// square_root
//   buffers: in, out (may be in place); attrs: count
// row_max
//   buffers: logits, max; attrs: rows, cols; scalars: [valid_cols]
//   The maximum of each row's first valid_cols columns; NaN if one is NaN, -inf if there is none.
// softmax_sums
//   buffers: logits, labels (i64), max, sum, picked; attrs: rows, cols; scalars: [start, valid_cols]
//   sum[i] = sum of exp(x - max[i]) over the valid columns; picked[i] = x[label - start] - max[i], or 0 when
//   the label is not in [start, start + valid_cols).
// cross_entropy_backward
//   buffers: logits, labels (i64), lse, scale, dlogits (may be logits: in place)
//   attrs:   rows, cols, ignore_index=-100; scalars: [start, valid_cols, valid_rows]
//   dlogits = scale[0] * (exp(x - lse[i]) - (column + start == label ? 1 : 0)); 0 in rows whose label is
//   ignore_index, rows >= valid_rows and columns >= valid_cols.
// adamw, adam
//   buffers: scalars, decay, [grad_norm], p, g, m, v; attrs: count, decay (an index), grad_norm=false
// sgd
//   buffers: scalars, decay, [grad_norm], p, g; attrs: as adamw
// sgd_momentum
//   buffers: scalars, decay, [grad_norm], p, g, momentum; attrs: as adamw
//   With apart (default false) p and the state follow once more: where the step leaves each, which is where
//   it finds it, or shares no byte with that. In place on p and the state, as PyTorch's optimizers, by the
//   formula of runtime/device/update_step.h, to the bit. `scalars` is the program's f32 array, `decay` the
//   array of weight decays, indexed by the attribute. With grad_norm (the global norm, one f32) and clip_norm
//   > 0 the gradient is scaled by min(1, clip_norm / (grad_norm + 1e-6)). With `loss_scale` (default false)
//   `scalars` has a ninth number, which that is divided by, and where grad_norm is not finite nothing
//   changes.
#pragma once

#include "runtime/device/cpu/pool.h"
#include "runtime/device/device.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace tessera::rt::cpu {

/// What a step gives a prepared call: buffers and evaluated scalars in the order of the contract, and the
/// pool of the rank that it was prepared for.
struct CallContext {
  void *const *args;
  const int64_t *scalars;
  Pool &pool;
};

/// A prepared call. Not to be run twice at the same time: it may own primitives per thread of the pool.
using LibraryCall = std::function<void(const CallContext &)>;

/// What is known when a call is prepared: `argBytes` are the sizes of its buffers in order, `threads` those
/// of the pool it will run on.
struct CallSite {
  const nlohmann::json &attrs;
  std::span<const int64_t> argBytes;
  int64_t numScalars;
  int threads;
};

/// Checks and prepares a call of `function`. Throws Error for an unknown function, a missing or malformed
/// attribute, a wrong number of buffers or scalars, a buffer smaller than the shape, or a workspace smaller
/// than this machine needs.
LibraryCall prepareCall(std::string_view function, const CallSite &site);

/// The call of a site without scalars on its buffers, by the pool, which must stay. As prepareCall.
std::function<void()> prepareOn(Pool &pool, const LibrarySite &site);

/// The names of all functions, sorted.
std::vector<std::string_view> libraryFunctions();

} // namespace tessera::rt::cpu
