// rsa: attention of a block of queries to all keys (Ring Self-Attention, Li et al. 2021).
#include "passes/Assign/Pattern.h"

using namespace tessera;

namespace {
class Rsa : public Pattern {
  llvm::StringRef name() const override { return "rsa"; }
  llvm::ArrayRef<llvm::StringRef> axes() const override {
    static const llvm::StringRef names[] = {"axis"};
    return names;
  }
  llvm::StringRef doc() const override {
    return "Each rank attends from its own block of queries to all keys: keys and values are gathered over the axis, (n-1)/n of them, for the forward "
           "and again for the backward, where their cotangents, partial sums, are reduce-scattered. Any number of heads.";
  }
  Applies applies(nn::FactorOpInterface op, llvm::ArrayRef<dist::AxisList>) const override {
    if (!attentionOf(op))
      return {"'rsa' splits the queries of an attention, and this operator is none"};
    return {};
  }
  Choice choose(nn::FactorOpInterface op, llvm::ArrayRef<dist::AxisList> axes, const Surroundings &) const override {
    return {{{attentionOf(op)->s, axes[0]}}};
  }
};
RegisterPattern<Rsa> rsa;
} // namespace
