// ONNX's own Attention and RotaryEmbedding (opset 23).
#include "lib/Import/Importer.h"
#include "lib/Import/ops/Families.h"
#include <cmath>
#include <limits>

using namespace mlir;
using llvm::Twine;

namespace tessera {
namespace {

/// [b, s, heads, d] from [b, heads, s, d] or [b, s, heads*d].
Value byHeads(NodeImport &n, Value x, int64_t heads) {
  if (rankOf(x) == 4)
    return n.e.transpose(x, {0, 2, 1, 3});
  if (rankOf(x) != 3 || heads < 1 || shapeOf(x)[2] % heads)
    n.fail("a 3-D operand of Attention needs a number of heads that divides its last dimension");
  return n.e.reshape(x, {shapeOf(x)[0], shapeOf(x)[1], heads, shapeOf(x)[2] / heads});
}

/// The mask as a bias [b|1, m|1, g|1, s|1, t]; a bool mask is true where a query attends. A short mask is
/// padded with -inf.
Value biasOf(NodeImport &n, Value mask, Type type, int64_t kvHeads, int64_t groups, int64_t keys) {
  Emitter &e = n.e;
  constexpr double never = -std::numeric_limits<double>::infinity();
  if (elementOf(mask).isInteger(1))
    mask = e.emit<nn::SelectOp>({mask, e.splat(type, 0), e.splat(type, never)});
  mask = e.cast(mask, type);
  if (rankOf(mask) > 4 || rankOf(mask) < 1)
    n.fail("the mask of Attention has " + Twine(rankOf(mask)) + " dimensions");
  Shape full(4 - rankOf(mask), 1);
  full.append(shapeOf(mask).begin(), shapeOf(mask).end());
  mask = e.reshape(mask, full);
  if (full[3] > keys)
    n.fail("the mask of Attention is longer than the keys");
  if (full[3] < keys) {
    Shape rest(full);
    rest[3] = keys - full[3];
    mask = e.concat({mask, e.splat(type, never, rest)}, 3);
  }
  if (full[1] == 1)
    return e.reshape(mask, {full[0], 1, 1, full[2], keys});
  if (full[1] != kvHeads * groups)
    n.fail("the mask of Attention has " + Twine(full[1]) + " heads, there are " + Twine(kvHeads * groups));
  return e.reshape(mask, {full[0], kvHeads, groups, full[2], keys});
}

void attention(NodeImport &n) {
  Emitter &e = n.e;
  for (size_t i = 4; i < n.node.inputs.size(); ++i)
    if (n.has(i))
      n.fail("Attention with a key/value cache is not supported");
  for (size_t i = 1; i < n.node.outputs.size(); ++i)
    if (!n.node.outputs[i].empty())
      n.fail("only the first output of Attention is supported");
  if (n.floatAttr("softcap", 0) != 0 || n.intAttr("left_window_size", -1) != -1 ||
      n.intAttr("right_window_size", -1) != -1)
    n.fail("Attention with softcap or a window is not supported");
  // Of an output that is refused; and sums are never of a smaller type than f32.
  n.ignore({"qk_matmul_output_mode", "softmax_precision"});
  bool flat = rankOf(n.in(0)) == 3;
  Value q = byHeads(n, n.in(0), n.intAttr("q_num_heads", 0)),
        k = byHeads(n, n.in(1), n.intAttr("kv_num_heads", 0)),
        v = byHeads(n, n.in(2), n.intAttr("kv_num_heads", 0));
  llvm::ArrayRef<int64_t> shape = shapeOf(q);
  int64_t heads = shape[2], kvHeads = shapeOf(k)[2], keys = shapeOf(k)[1], width = shape[3];
  if (kvHeads < 1 || heads % kvHeads)
    n.fail(Twine(heads) + " query heads cannot share " + Twine(kvHeads) + " key/value heads");
  int64_t groups = heads / kvHeads, batch = shape[0], queries = shape[1];
  llvm::SmallVector<Value> operands{e.reshape(q, {batch, queries, kvHeads, groups, width}), k, v};
  if (n.has(3))
    operands.push_back(biasOf(n, n.in(3), elementOf(q), kvHeads, groups, keys));
  bool causal = n.intAttr("is_causal", 0);
  if (causal && queries != keys)
    n.fail("causal Attention with " + Twine(queries) + " queries and " + Twine(keys) +
           " keys is not supported");
  double scale = n.floatAttr("scale", 1 / std::sqrt(static_cast<double>(width)));
  // q, k, v, the bias if any, no range, no dropout.
  NamedAttribute segments = e.builder.getNamedAttr("operandSegmentSizes",
                                                   e.builder.getDenseI32ArrayAttr({1, 1, 1, n.has(3), 0, 0}));
  auto op = e.create<nn::AttentionOp>(
      operands, {segments, e.builder.getNamedAttr("scale", e.builder.getF64FloatAttr(scale)),
                 e.builder.getNamedAttr("causal", e.builder.getBoolAttr(causal))});
  int64_t valueWidth = shapeOf(v)[3];
  if (flat)
    return n.out(e.reshape(op.getO(), {batch, queries, heads * valueWidth}));
  n.out(e.transpose(e.reshape(op.getO(), {batch, queries, heads, valueWidth}), {0, 2, 1, 3}));
}

/// X [b, heads, s, d] or [b, s, heads*d]; caches [positions, d/2], or [b, s, d/2] without position_ids.
void rotaryEmbedding(NodeImport &n) {
  Emitter &e = n.e;
  Value x = n.in(0);
  Shape original(shapeOf(x));
  bool interleaved = n.intAttr("interleaved", 0);
  Value rows = byHeads(n, x, n.intAttr("num_heads", 0)); // [b, s, heads, d]
  int64_t width = shapeOf(rows)[3], rotated = n.intAttr("rotary_embedding_dim", 0);
  if (!rotated)
    rotated = width;
  if (rotated % 2 || rotated < 0 || rotated > width)
    n.fail("rotary_embedding_dim does not fit the heads");
  auto table = [&](size_t input) {
    Value half = n.has(3) ? e.emit<nn::GatherOp>({n.in(input), n.in(3)}) : n.in(input); // [b, s, d/2]
    if (rankOf(half) != 3 || shapeOf(half)[2] != rotated / 2)
      n.fail("the caches of RotaryEmbedding do not fit its heads");
    Value both = e.concat({half, half}, 2);
    return e.reshape(both, {shapeOf(both)[0], shapeOf(both)[1], 1, rotated});
  };
  Value turning = e.slice(rows, 3, 0, rotated);
  Shape shape(shapeOf(turning)), pairs{shape[0], shape[1], shape[2], rotated / 2, 2},
      halves{shape[0], shape[1], shape[2], 2, rotated / 2};
  if (interleaved) // pairs (0, 1), (2, 3), .. to halves
    turning = e.reshape(e.transpose(e.reshape(turning, pairs), {0, 1, 2, 4, 3}), shape);
  Value y = e.emit<nn::RotaryOp>({turning, table(1), table(2)});
  if (interleaved)
    y = e.reshape(e.transpose(e.reshape(y, halves), {0, 1, 2, 4, 3}), shape);
  if (rotated < width)
    y = e.concat({y, e.slice(rows, 3, rotated, width - rotated)}, 3);
  n.out(original.size() == 3 ? e.reshape(y, original) : e.transpose(y, {0, 2, 1, 3}));
}

} // namespace

void addAttentionHandlers(HandlerRegistry &r) {
  r.add("Attention", attention, 23);
  r.add("RotaryEmbedding", rotaryEmbedding, 23);
}

} // namespace tessera
