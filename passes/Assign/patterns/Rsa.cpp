// rsa: attention of a block of queries to all keys (Ring Self-Attention, Li et al. 2021).
#include "passes/Assign/KeyRing.h"

using namespace mlir;
using namespace tessera;
using dist::AxisList;

namespace {

// The cotangents of a block's keys and values are summed over the ranks as the block goes round, those of its
// own rank last: a reduce-scatter, chunk by chunk.
void backward(nn::LocalBuilder &b, nn::AttentionGradOp op, ArrayRef<AxisList> axes, ValueRange operands,
              SmallVectorImpl<Value> &results) {
  Value q = operands[0], k = operands[1], v = operands[2], bias = op.getBias() ? operands[3] : Value();
  ValueRange rest = operands.drop_front(bias ? 4 : 3);
  KeyRing ring(b, op, axes, operands);
  auto add = [&](Value x, Value y) -> Value {
    return x ? nn::AddOp::create(b, op.getLoc(), x.getType(), x, y) : y;
  };
  Value dq, dk, dv;
  KeyRing::Gradients own;
  for (int64_t i = 0, n = ring.steps(); i < n; ++i) {
    Value nextK = i + 1 < n ? ring.move(k) : Value(), nextV = i + 1 < n ? ring.move(v) : Value();
    KeyRing::Gradients part = ring.differentiate(op, q, k, v, bias, rest);
    dq = add(dq, part.q);
    if (i == 0)
      own = part;
    else
      dk = ring.move(add(dk, part.k)), dv = ring.move(add(dv, part.v));
    ring.advance();
    k = nextK, v = nextV;
  }
  results.append({dq, add(dk, own.k), add(dv, own.v)});
}

class Rsa : public tessera::Pattern {
  StringRef name() const override { return "rsa"; }
  ArrayRef<StringRef> axes() const override {
    static const StringRef names[] = {"axis"};
    return names;
  }
  StringRef doc() const override {
    return "Each rank attends from its own block of queries to all keys, which go round the axis with their "
           "values in blocks of (n-1)/n in all, for the forward "
           "and again for the backward, where their cotangents, partial sums, are reduce-scattered block by "
           "block: 2(n-1) sends of a block forward, 4(n-1) backward. "
           "Nothing is gathered. Any number of heads. Tokens stay in order, so that in a causal attention "
           "late ranks have more to do (ring does better). "
           "Where a causal attention has other keys than queries, keys are gathered and their cotangents "
           "reduce-scattered whole.";
  }
  Applies applies(nn::FactorOpInterface op, ArrayRef<AxisList> axes) const override {
    std::optional<AttentionFactors> f = attentionOf(op);
    if (!f)
      return {"'rsa' splits the queries of an attention, and this operator is none"};
    nn::FactorRule rule = op.getFactorRule();
    int64_t rows = rule.factors[f->s].size, keys = rule.factors[f->t].size, ranks = dist::product(axes[0]);
    if (ranks > std::min(rows, keys))
      return {"'rsa' has no query and key for each of " + std::to_string(ranks) + " ranks, where there are " +
              std::to_string(rows) + " and " + std::to_string(keys) + "; take fewer ranks"};
    return {};
  }
  Choice choose(nn::FactorOpInterface op, ArrayRef<AxisList> axes, const Surroundings &) const override {
    AttentionFactors f = *attentionOf(op);
    nn::FactorRule rule = op.getFactorRule();
    Choice choice{{{f.s, axes[0]}}};
    auto attention = dyn_cast<nn::AttentionOp>(op.getOperation());
    bool inOrder = attention && (!attention.getCausal() || rule.factors[f.s].size == rule.factors[f.t].size);
    if (inOrder && axes[0].size() == 1)
      choice.stream = Stream{{{1, {{f.t, axes[0]}}}, {2, {{f.t, axes[0]}}}}};
    return choice;
  }
  LogicalResult expand(nn::LocalBuilder &b, nn::FactorOpInterface op, ArrayRef<AxisList> axes,
                       ValueRange operands, SmallVectorImpl<Value> &results) const override {
    if (auto attention = dyn_cast<nn::AttentionOp>(op.getOperation()))
      return expandAttention(b, attention, axes, operands, results), success();
    if (auto grad = dyn_cast<nn::AttentionGradOp>(op.getOperation()))
      return backward(b, grad, axes, operands, results), success();
    return op.emitOpError("is neither an attention nor the gradient of one");
  }
};
RegisterPattern<Rsa> rsa;
} // namespace
