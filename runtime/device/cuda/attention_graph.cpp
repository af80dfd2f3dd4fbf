// See attention_graph.h. cuDNN knows attention by the operations that it is made of, in this order and with
// these types between them. Its operation for the whole (CUDNN_BACKEND_OPERATION_SDPA_FWD) has no causal
// mask.
#include "runtime/device/cuda/attention_graph.h"

#include "runtime/device/cuda/dnn_graph.h"

#include <algorithm>
#include <limits>
#include <sstream>
#include <utility>

namespace tessera::rt::cuda {
namespace {

using namespace dnn;

/// Rows begin at multiples of 16 bytes.
template <size_t N> bool isAligned(const void *memory, const int64_t (&strides)[N]) {
  return reinterpret_cast<uintptr_t>(memory) % 16 == 0 &&
         std::all_of(strides, strides + N, [](int64_t stride) { return stride % 8 == 0; });
}

/// Whether a bias can be described.
bool takesBias(const AttentionArguments &a) {
  bool one = a.group == 1 || a.kvHeads == 1 || a.biasStrides[1] == a.group * a.biasStrides[2],
       typed = a.biasType == Element::F32 || a.biasType == a.type;
  return one && typed && reinterpret_cast<uintptr_t>(a.bias) % 16 == 0 && a.biasStrides[4] == 1;
}

/// Whether the heads of queries, numbered through all groups, are one dimension.
bool headsAreOne(const AttentionArguments &a) {
  auto one = [&](const int64_t (&strides)[4]) {
    return a.group == 1 || a.kvHeads == 1 || strides[2] == a.group * strides[3];
  };
  return one(a.qStrides) && one(a.oStrides) && (!a.dq || (one(a.dOStrides) && one(a.dqStrides)));
}

bool isTaken(const AttentionArguments &a) {
  bool aligned = isAligned(a.q, a.qStrides) && isAligned(a.k, a.kStrides) && isAligned(a.v, a.vStrides) &&
                 isAligned(a.o, a.oStrides) && isAligned(a.dO, a.dOStrides) && isAligned(a.dq, a.dqStrides) &&
                 isAligned(a.dk, a.dkStrides) && isAligned(a.dv, a.dvStrides);
  return aligned && !a.key && a.type != Element::F32 && a.d <= 128 && a.d % 8 == 0 && headsAreOne(a) &&
         (!a.bias || takesBias(a)) && a.zigzag == 0 && (!a.causal || a.s == a.t) && a.batch > 0 && a.s > 0 &&
         a.t > 0;
}

/// Whether cuDNN is known to go wrong with gradients: up to 9.15.0 it may leave its memory where a recorded
/// step is repeated and the last block of 128 keys is not full (release notes of its frontend 1.16); with a
/// bias 9.20 gives NaN for dq on Hopper where the block is half full and a row's lse is under -88
/// (pytorch/pytorch#196678).
bool goesWrong(const AttentionArguments &a) {
  return a.t % 128 != 0 && (Library::get()->version <= 91500 || (a.bias && a.t % 128 == 64));
}

/// All that a plan depends on: layers have the same.
std::string describe(const AttentionArguments &a, bool backward) {
  std::ostringstream text;
  text << backward << ' ' << int(a.type) << ' ' << a.causal << ' ' << a.scale << ' '
       << (a.bias ? int(a.biasType) : -1);
  for (int64_t size : {a.batch, a.s, a.t, a.kvHeads, a.group, a.d})
    text << ' ' << size;
  auto add = [&](const auto &strides) {
    for (int64_t stride : strides)
      text << ' ' << stride;
  };
  for (const auto *strides : {&a.qStrides, &a.oStrides, &a.dOStrides, &a.dqStrides})
    add(*strides);
  for (const auto *strides : {&a.kStrides, &a.vStrides, &a.dkStrides, &a.dvStrides})
    add(*strides);
  if (a.bias)
    add(a.biasStrides);
  return text.str();
}

/// Sizes are [batch, head, row, column].
class Attention {
public:
  Attention(CudaDevice &device, const AttentionArguments &a)
      : graph(device), a(a), type(typeOf(a.type)), heads(a.kvHeads * a.group),
        queries{a.batch, heads, a.s, a.d}, keys{a.batch, a.kvHeads, a.t, a.d},
        turned{a.batch, a.kvHeads, a.d, a.t}, scores{a.batch, heads, a.s, a.t}, rows{a.batch, heads, a.s, 1} {
  }

  void forward() {
    Handle masked = maskedScores(), most = perRow(), moved = perScore(), weight = perScore(), sum = perRow(),
           logarithm = perRow(), share = graph.between(type, scores);
    graph.reduce(Most, masked, most);
    graph.pointwise(Subtract, masked, most, moved);
    graph.pointwise(Exponential, moved, nullptr, weight);
    graph.reduce(Sum, weight, sum);
    graph.pointwise(Logarithm, sum, nullptr, logarithm);
    graph.pointwise(Add, most, logarithm, sums());
    graph.pointwise(Divide, weight, sum, share);
    graph.multiply(share, perKey(a.v, a.vStrides), perQuery(a.out, a.oStrides));
  }

  /// In the form that cuDNN's engines are made for: they write each row's sum of dO * O to memory and read it
  /// from there, and what they multiply for the gradients of keys and values is rounded where it is turned.
  void backward() {
    Handle dO = perQuery(a.dO, a.dOStrides), product = graph.between(Float32, queries), sum = perRow(),
           delta = graph.kept(rows);
    graph.pointwise(Multiply, dO, perQuery(a.o, a.oStrides), product);
    graph.reduce(Sum, product, sum);
    graph.pointwise(Multiply, sum, graph.number(1), delta);
    Handle masked = maskedScores(), moved = perScore(), share = perScore();
    graph.pointwise(Subtract, masked, sums(), moved);
    graph.pointwise(Exponential, moved, nullptr, share);
    multiplyForKeys(transposed(share), dO, perKey(a.dv, a.dvStrides));
    Handle dShare = perScore(), difference = perScore(), dScaled = perScore(), dScore = perScore();
    graph.multiply(dO, turnedKeys(a.v, a.vStrides), dShare);
    graph.pointwise(Subtract, dShare, delta, difference);
    graph.pointwise(Multiply, difference, share, dScaled);
    graph.pointwise(Multiply, dScaled, graph.number(a.scale), dScore);
    multiplyForKeys(transposed(dScore), q, perKey(a.dk, a.dkStrides));
    Handle kAgain = graph.tensor(type, keys, {a.kStrides[0], a.kStrides[2], a.kStrides[1], 1});
    graph.reshape(k, kAgain);
    graph.multiply(dScore, kAgain, perQuery(a.dq, a.dqStrides));
  }

  Graph graph;

private:
  Handle perScore() { return graph.between(Float32, scores); }
  Handle perRow() { return graph.between(Float32, rows); }
  Handle perQuery(const void *memory, const int64_t (&strides)[4]) {
    return graph.tensor(type, queries, {strides[0], strides[a.group > 1 ? 3 : 2], strides[1], 1},
                        const_cast<void *>(memory));
  }
  Handle perKey(const void *memory, const int64_t (&strides)[3]) {
    return graph.tensor(type, keys, {strides[0], strides[2], strides[1], 1}, const_cast<void *>(memory));
  }
  Handle turnedKeys(const void *memory, const int64_t (&strides)[3]) {
    return graph.tensor(type, turned, {strides[0], strides[2], 1, strides[1]}, const_cast<void *>(memory));
  }
  /// Of dimensions that share it, batch and head have size 1, and queries a stride of 0: so others pass it,
  /// and cuDNN is known to take it.
  Handle bias() {
    int64_t perBatch = a.biasStrides[0], perHead = a.biasStrides[a.group > 1 ? 2 : 1],
            perRow = a.biasStrides[3];
    Extents sizes = {perBatch ? a.batch : 1, perHead ? heads : 1, a.s, a.t}, strides = packed(sizes);
    return graph.tensor(
        typeOf(a.biasType), sizes,
        {perBatch ? perBatch : strides[0], perHead ? perHead : strides[1], a.s > 1 ? perRow : strides[2], 1},
        const_cast<void *>(a.bias));
  }
  /// The logarithms of the sums of each row's exponentials, [batch, row, head] in memory.
  Handle sums() { return graph.tensor(Float32, rows, {a.s * heads, 1, heads, heads}, a.lse); }
  /// Heads that share keys add up.
  void multiplyForKeys(Handle left, Handle right, Handle result) {
    if (a.group == 1)
      return graph.multiply(left, right, result);
    Handle each = graph.between(type, {a.batch, heads, a.t, a.d});
    graph.multiply(left, right, each);
    graph.reduce(Sum, each, result);
  }
  Handle transposed(Handle x) {
    Handle y = graph.tensor(type, {a.batch, heads, a.t, a.s}, {heads * a.s * a.t, a.s * a.t, 1, a.t});
    graph.reshape(x, y);
    return y;
  }
  Handle maskedScores() {
    q = perQuery(a.q, a.qStrides);
    Handle raw = perScore(), scaled = perScore();
    k = turnedKeys(a.k, a.kStrides);
    graph.multiply(q, k, raw);
    graph.pointwise(Multiply, raw, graph.number(a.scale), scaled);
    if (a.bias)
      graph.pointwise(Add, std::exchange(scaled, perScore()), bias(), scaled);
    if (!a.causal)
      return scaled;
    Handle row = graph.between(Int32, scores), column = graph.between(Int32, scores),
           visible = graph.between(Boolean, scores), masked = perScore();
    graph.pointwise(Index, scaled, nullptr, row, Int32, nullptr, 2);
    graph.pointwise(Index, scaled, nullptr, column, Int32, nullptr, 3);
    graph.pointwise(AtLeast, row, column, visible, Boolean);
    graph.pointwise(Select, scaled, graph.number(-std::numeric_limits<float>::infinity()), masked, Float32,
                    visible);
    return masked;
  }

  const AttentionArguments a;
  const int type;
  const int64_t heads;
  const Extents queries, keys, turned, scores, rows;
  Handle q = nullptr, k = nullptr;
};

} // namespace

Work prepareAttentionGraph(CudaDevice &device, const AttentionArguments &arguments, bool backward) {
  if (!isTaken(arguments) || !device.dnn() || (backward && goesWrong(arguments)))
    return {};
  auto attention = std::make_shared<Attention>(device, arguments);
  backward ? attention->backward() : attention->forward();
  auto [plan, isNew] = device.dnnPlans().try_emplace(describe(arguments, backward));
  if (isNew && attention->graph.plan())
    plan->second = std::shared_ptr<const Graph>(attention, &attention->graph);
  else if (plan->second)
    attention->graph.planAs(plan->second);
  else
    return {};
  return [attention](const int64_t *) { attention->graph.run(); };
}

} // namespace tessera::rt::cuda
