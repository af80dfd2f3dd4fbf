// ulysses-ring: attention by heads over one axis while keys and values go round the other (USP, Fang and Zhao
// 2024).
#include "passes/Assign/KeyRing.h"

using namespace mlir;
using namespace tessera;
using dist::AxisList;

namespace {
class UlyssesRing : public tessera::Pattern {
  StringRef name() const override { return "ulysses-ring"; }
  ArrayRef<StringRef> axes() const override {
    static const StringRef names[] = {"ring", "heads"};
    return names;
  }
  StringRef doc() const override {
    return "Tokens live split over both axes. Each rank exchanges, within its group of the second axis, its "
           "tokens of all heads for the group's tokens of its heads, "
           "as in ulysses; blocks of keys and values of these heads go round the first axis, as in ring. "
           "More ranks than heads, and fewer and larger sends than "
           "a ring over all of them: with n x h ranks forward four all-to-alls of (h-1)/h of a rank's block "
           "and 2(n-1) sends of a block.";
  }
  Applies applies(nn::FactorOpInterface op, ArrayRef<AxisList> axes) const override {
    return appliesToRing(op, name(), axes.take_front(1));
  }
  Choice choose(nn::FactorOpInterface op, ArrayRef<AxisList> axes,
                const Surroundings &around) const override {
    AttentionFactors f = *attentionOf(op);
    auto others = [&](int factor) {
      AxisList list = around.home(0, factor);
      llvm::erase_if(list, [&](const dist::AxisRef &axis) {
        return dist::overlapsAny(axis, axes[0]) || dist::overlapsAny(axis, axes[1]);
      });
      return list;
    };
    AxisList m = others(f.m), g = others(f.g), tokens = axes[0];
    Choice choice{splitHeads(op, m, g, axes[1])};
    choice.compute.push_back({f.s, tokens});
    if (!axes[0].empty()) {
      choice.stream = Stream{{{1, {{f.t, axes[0]}}}, {2, {{f.t, axes[0]}}}}};
      if (cast<nn::AttentionOp>(op.getOperation()).getCausal())
        choice.stream->zigzag = dist::product(axes[0]);
    }
    tokens.append(axes[1]);
    choice.homes[0] = {{f.s, tokens}, {f.m, m}, {f.g, g}};
    return choice;
  }
  LogicalResult expand(nn::LocalBuilder &b, nn::FactorOpInterface op, ArrayRef<AxisList> axes,
                       ValueRange operands, SmallVectorImpl<Value> &results) const override {
    if (auto attention = dyn_cast<nn::AttentionOp>(op.getOperation()))
      return expandAttention(b, attention, axes.take_front(1), operands, results), success();
    if (auto grad = dyn_cast<nn::AttentionGradOp>(op.getOperation()))
      return expandAttentionGrad(b, grad, axes.take_front(1), operands, results), success();
    return op.emitOpError("is neither an attention nor the gradient of one");
  }
};
RegisterPattern<UlyssesRing> ulyssesRing;
} // namespace
