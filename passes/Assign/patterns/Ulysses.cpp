// ulysses: attention by heads between two exchanges with tokens (DeepSpeed-Ulysses, Jacobs et al. 2023).
#include "passes/Assign/Pattern.h"

using namespace tessera;

namespace {
class Ulysses : public Pattern {
  llvm::StringRef name() const override { return "ulysses"; }
  llvm::ArrayRef<llvm::StringRef> axes() const override {
    static const llvm::StringRef names[] = {"axis"};
    return names;
  }
  llvm::StringRef doc() const override {
    return "Tokens live split over the axis; for the attention each rank exchanges its tokens of all heads "
           "for all tokens of its heads, and "
           "back: four all-to-alls forward (q, k, v, and the result), four backward, each (n-1)/n of a "
           "rank's block. Heads are split as by `heads`: with more ranks "
           "than key/value heads the query heads of a group are split too, and their keys and values "
           "gathered.";
  }
  Applies applies(nn::FactorOpInterface op, llvm::ArrayRef<dist::AxisList>) const override {
    if (!attentionOf(op))
      return {"'ulysses' exchanges tokens for heads around an attention, and this operator is none"};
    return {};
  }
  Choice choose(nn::FactorOpInterface op, llvm::ArrayRef<dist::AxisList> axes,
                const Surroundings &around) const override {
    AttentionFactors f = *attentionOf(op);
    auto others = [&](int factor) {
      dist::AxisList list = around.home(0, factor);
      llvm::erase_if(list, [&](const dist::AxisRef &axis) { return dist::overlapsAny(axis, axes[0]); });
      return list;
    };
    dist::AxisList tokens = others(f.s), m = others(f.m), g = others(f.g);
    Choice choice{splitHeads(op, m, g, axes[0])};
    choice.compute.push_back({f.s, tokens});
    // The result goes back to its tokens, where they came from or else as the axis has them.
    dist::AxisList home = around.home(0, f.s);
    if (home.size() == tokens.size())
      home.append(axes[0].begin(), axes[0].end());
    choice.homes[0] = {{f.s, home}, {f.m, m}, {f.g, g}};
    return choice;
  }
};
RegisterPattern<Ulysses> ulysses;
} // namespace
