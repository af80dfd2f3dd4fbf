// heads: attention over its own heads.
#include "passes/Assign/Pattern.h"

using namespace tessera;

namespace {
class Heads : public Pattern {
  llvm::StringRef name() const override { return "heads"; }
  llvm::ArrayRef<llvm::StringRef> axes() const override {
    static const llvm::StringRef names[] = {"axis"};
    return names;
  }
  llvm::StringRef doc() const override {
    return "Attention is split by key/value heads, then by the query heads of a group where there are more "
           "ranks than key/value heads; heads that the "
           "ranks do not divide are padded as whole heads. Nothing is sent. Between a column and a row "
           "product it follows by itself.";
  }
  Applies applies(nn::FactorOpInterface op, llvm::ArrayRef<dist::AxisList>) const override {
    if (!attentionOf(op))
      return {"'heads' splits the heads of an attention, and this operator is none"};
    return {};
  }
  Choice choose(nn::FactorOpInterface op, llvm::ArrayRef<dist::AxisList> axes,
                const Surroundings &) const override {
    return {splitHeads(op, {}, {}, axes[0])};
  }
};
RegisterPattern<Heads> heads;
} // namespace
