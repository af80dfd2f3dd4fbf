// ring and double-ring: attention while keys and values go round (Ring Attention, Liu et al. 2023; the merge
// of partial softmaxes is that of Milakov and Gimelshein 2018; two rings, an inner and an outer one, as in
// LoongTrain, Gu et al. 2024).
#include "passes/Assign/KeyRing.h"

using namespace mlir;
using namespace tessera;
using dist::AxisList;

namespace {

class RingAttention : public tessera::Pattern {
  Applies applies(nn::FactorOpInterface op, ArrayRef<AxisList> axes) const override {
    return appliesToRing(op, name(), axes);
  }
  Choice choose(nn::FactorOpInterface op, ArrayRef<AxisList> axes, const Surroundings &) const override {
    AttentionFactors f = *attentionOf(op);
    AxisList all;
    for (const AxisList &list : axes)
      all.append(list);
    Choice choice{{{f.s, all}}};
    choice.stream = Stream{{{1, {{f.t, all}}}, {2, {{f.t, all}}}}};
    if (!all.empty() && cast<nn::AttentionOp>(op.getOperation()).getCausal())
      choice.stream->zigzag = dist::product(all);
    return choice;
  }
  LogicalResult expand(nn::LocalBuilder &b, nn::FactorOpInterface op, ArrayRef<AxisList> axes,
                       ValueRange operands, SmallVectorImpl<Value> &results) const override {
    SmallVector<AxisList> rings;
    for (const AxisList &list : axes)
      if (!list.empty())
        rings.push_back(list);
    if (auto attention = dyn_cast<nn::AttentionOp>(op.getOperation()))
      return expandAttention(b, attention, rings, operands, results), success();
    if (auto grad = dyn_cast<nn::AttentionGradOp>(op.getOperation()))
      return expandAttentionGrad(b, grad, rings, operands, results), success();
    return op.emitOpError("is neither an attention nor the gradient of one");
  }
};

class Ring : public RingAttention {
  StringRef name() const override { return "ring"; }
  ArrayRef<StringRef> axes() const override {
    static const StringRef names[] = {"axis"};
    return names;
  }
  StringRef doc() const override {
    return "Tokens are split over the axis; each rank attends from its own queries to the keys and values "
           "that are with it, sends them on to the next rank "
           "while it works, and merges what it gets by the logarithm of each row's sum. Forward n-1 sends of "
           "a rank's block of k and v; backward n-1 of k and v "
           "and n of their cotangents. Nothing is gathered: a rank holds two blocks of keys at a time. In a "
           "causal attention ranks with late tokens would have "
           "more to do than others, so tokens are held in zig-zag order: of 2n chunks rank r has chunks r "
           "and 2n-1-r, and each step is half a block's work on "
           "every rank. It takes a number of tokens that 2n divides, and no operator that needs neighbouring "
           "tokens; else tokens stay in order.";
  }
};

class DoubleRing : public RingAttention {
  StringRef name() const override { return "double-ring"; }
  ArrayRef<StringRef> axes() const override {
    static const StringRef names[] = {"outer", "inner"};
    return names;
  }
  StringRef doc() const override {
    return "As ring over two axes, of which the inner one has the faster links: blocks go round the inner "
           "ring, and one place along the outer one "
           "whenever they are through, so that of all sends only one in the inner ring's size uses the "
           "slower links.";
  }
};
RegisterPattern<Ring> ring;
RegisterPattern<DoubleRing> doubleRing;
} // namespace
