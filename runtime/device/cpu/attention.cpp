// Attention calls: shapes and strides are read once, tasks are handed to the pool.
#include "runtime/core/philox.h"
#include "runtime/device/cpu/cpu.h"
#include "runtime/device/cpu/functions.h"
#include "runtime/device/cpu/workspace.h"

#include <algorithm>
#include <array>

namespace tessera::rt::cpu {

namespace {
/// Query rows per forward task. Keys are packed once a task, so a task is long; its length does not depend on
/// the number of threads.
constexpr int64_t forwardRows = 7 * attentionRows;

/// Arguments of one strided operand: its buffer and offset.
struct Operand {
  int argument = -1;
  int64_t offset = 0; // bytes
  void *at(const CallContext &context) const {
    return argument < 0 ? nullptr : static_cast<char *>(context.args[argument]) + offset;
  }
};

/// The buffers of a dropout; -1: there is none.
struct Dropout {
  int key = -1, rows = -1;
  int64_t scalars() const { return key < 0 ? 0 : 5; }
};

class AttentionParser {
public:
  explicit AttentionParser(CallParser &parser) : parser(parser) {
    shape.batch = parser.size("batch");
    shape.s = parser.size("s");
    shape.t = parser.size("t");
    shape.kvHeads = parser.size("kv_heads");
    shape.group = parser.size("group");
    shape.d = parser.size("d");
    shape.scale = float(parser.number("scale"));
    shape.causal = parser.flag("causal");
    shape.zigzag = parser.size("zigzag", 0);
    if (shape.zigzag > 0 &&
        (shape.s != shape.t || shape.s % 2 != 0 || !checkedProduct(std::array{shape.zigzag, shape.s})))
      parser.fail("attribute 'zigzag' takes as many queries as keys, an even number");
    shape.type = parser.element("dtype", Element::F32);
    shape.biasType = parser.element("bias_dtype", Element::F32);
    queryShape = {shape.batch, shape.s, shape.kvHeads, shape.group, shape.d};
    keyShape = {shape.batch, shape.t, shape.kvHeads, shape.d};
    if (shape.d < 1)
      parser.fail("attribute 'd' is 0, expected a head size of at least 1");
  }

  /// The next buffer with the strides and offset of attributes NAME_strides and NAME_offset, those of `like`
  /// when they are not given.
  template <size_t N> Operand operand(const char *name, const char *like, int64_t (&strides)[N]) {
    const std::string own = name, other = like;
    const std::string from = parser.has((own + "_strides").c_str()) ? own : other;
    const std::vector<int64_t> given = parser.sizes((from + "_strides").c_str(), N);
    std::copy(given.begin(), given.end(), strides);
    const std::string offsetFrom = parser.has((own + "_offset").c_str()) ? own : other;
    const int64_t offset = parser.size((offsetFrom + "_offset").c_str(), 0);
    std::vector<int64_t> all = given;
    all.push_back(1);
    const int64_t bytes = bytesOf(shape.type);
    return {parser.box(name, N == 4 ? std::span<const int64_t>(queryShape) : keyShape, all, offset, bytes),
            offset * bytes};
  }

  Operand bias() {
    if (!parser.flag("bias"))
      return {};
    const std::vector<int64_t> given = parser.sizes("bias_strides", 5);
    std::copy(given.begin(), given.end(), shape.bias);
    const std::array extents = {shape.batch, shape.kvHeads, shape.group, shape.s, shape.t};
    return {parser.box("bias", extents, given, 0, bytesOf(shape.biasType)), 0};
  }

  int lse() { return parser.buffer("lse", rows()); }

  /// The buffers of a dropout of the weights, behind all others.
  Dropout dropout() {
    if (!parser.has("dropout"))
      return {};
    const double ratio = parser.number("dropout");
    if (!(ratio > 0 && ratio < 1))
      parser.fail("attribute 'dropout' is " + std::to_string(ratio) + ", expected a ratio in (0, 1)");
    shape.keptScale = float(1 / (1 - ratio));
    shape.dropBelow = dropThreshold(ratio);
    const int key = parser.buffer("key", 1, 8);
    return {key, parser.buffer("rows", rows(), 8)};
  }

  AttentionShape shape{};

private:
  std::optional<int64_t> rows() const {
    return checkedProduct(std::array{shape.batch, shape.s, shape.kvHeads, shape.group});
  }

  CallParser &parser;
  std::array<int64_t, 5> queryShape;
  std::array<int64_t, 4> keyShape;
};

/// Fills in the scalars [valid_s, valid_t, start_s, start_t, id], and what a dropout reads.
void readScalars(const CallContext &context, int64_t scalars, const AttentionShape &shape,
                 const Dropout &dropout, AttentionCall &call) {
  if (dropout.key >= 0) {
    call.key = *static_cast<const uint64_t *>(context.args[dropout.key]);
    call.rows = static_cast<const int64_t *>(context.args[dropout.rows]);
    call.id = uint64_t(context.scalars[4]);
  }
  call.validS = std::clamp<int64_t>(scalars > 0 ? context.scalars[0] : shape.s, 0, shape.s);
  call.validT = std::clamp<int64_t>(scalars > 1 ? context.scalars[1] : shape.t, 0, shape.t);
  call.startS = scalars > 2 ? context.scalars[2] : 0;
  call.startT = scalars > 3 ? context.scalars[3] : 0;
}
} // namespace

LibraryCall prepareAttentionForward(CallParser &parser) {
  AttentionParser reader(parser);
  const Operand q = reader.operand("q", "q", reader.shape.q), k = reader.operand("k", "k", reader.shape.k);
  const Operand v = reader.operand("v", "v", reader.shape.v), bias = reader.bias();
  const Operand o = reader.operand("o", "o", reader.shape.o);
  const int lse = reader.lse();
  const Dropout dropout = reader.dropout();
  const AttentionShape shape = reader.shape;
  const int64_t areaSize = attentionForwardWorkspaceBytes(shape.t, shape.d, 1);
  const int workspace = parser.workspace(areaSize * parser.threads());
  parser.finish(dropout.scalars(), std::max<int64_t>(dropout.scalars(), 4));
  const int64_t scalars = parser.scalars();
  const Kernels &kernel = kernels();

  return [=, &kernel](const CallContext &context) {
    AttentionCall call{};
    call.q = q.at(context);
    call.k = k.at(context);
    call.v = v.at(context);
    call.bias = bias.at(context);
    call.out = o.at(context);
    call.lse = static_cast<float *>(context.args[lse]);
    readScalars(context, scalars, shape, dropout, call);
    const int64_t blocks = (shape.s + forwardRows - 1) / forwardRows;
    context.pool.parallelFor(
        shape.batch * shape.kvHeads * blocks, 1, [&](int64_t begin, int64_t end, int worker) {
          float *area =
              reinterpret_cast<float *>(static_cast<char *>(context.args[workspace]) + worker * areaSize);
          for (int64_t task = begin; task < end; ++task) {
            const int64_t row = task % blocks * forwardRows, head = task / blocks;
            kernel.attentionForward(shape, call, head / shape.kvHeads, head % shape.kvHeads, row,
                                    std::min(row + forwardRows, shape.s), area);
          }
        });
  };
}

LibraryCall prepareAttentionBackward(CallParser &parser) {
  AttentionParser reader(parser);
  const Operand q = reader.operand("q", "q", reader.shape.q), k = reader.operand("k", "k", reader.shape.k);
  const Operand v = reader.operand("v", "v", reader.shape.v), bias = reader.bias();
  const Operand o = reader.operand("o", "o", reader.shape.o);
  const int lse = reader.lse();
  const Operand dO = reader.operand("do", "o", reader.shape.dO),
                dq = reader.operand("dq", "q", reader.shape.dq);
  const Operand dk = reader.operand("dk", "k", reader.shape.dk),
                dv = reader.operand("dv", "v", reader.shape.dv);
  const Dropout dropout = reader.dropout();
  const AttentionShape shape = reader.shape;
  const int64_t areaSize = attentionBackwardWorkspaceBytes(shape.t, shape.d, 1);
  const int workspace = parser.workspace(areaSize * parser.threads());
  parser.finish(dropout.scalars(), std::max<int64_t>(dropout.scalars(), 4));
  const int64_t scalars = parser.scalars();
  const Kernels &kernel = kernels();

  return [=, &kernel](const CallContext &context) {
    AttentionCall call{};
    call.q = q.at(context);
    call.k = k.at(context);
    call.v = v.at(context);
    call.bias = bias.at(context);
    call.o = o.at(context);
    call.dO = dO.at(context);
    call.dq = dq.at(context);
    call.dk = dk.at(context);
    call.dv = dv.at(context);
    call.lse = static_cast<float *>(context.args[lse]);
    readScalars(context, scalars, shape, dropout, call);
    // One owner for the gradients of a key head: deterministic, and groups of query heads need no reduction.
    context.pool.parallelFor(shape.batch * shape.kvHeads, 1, [&](int64_t begin, int64_t end, int worker) {
      float *area =
          reinterpret_cast<float *>(static_cast<char *>(context.args[workspace]) + worker * areaSize);
      for (int64_t head = begin; head < end; ++head)
        kernel.attentionBackward(shape, call, head / shape.kvHeads, head % shape.kvHeads, area);
    });
  };
}

} // namespace tessera::rt::cpu
