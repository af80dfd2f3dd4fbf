// vocab: the vocabulary of an embedding table, a head or a loss, one block a rank (Megatron-LM, section 3).
#include "passes/Assign/Pattern.h"

using namespace tessera;

namespace {
class Vocab : public Pattern {
  llvm::StringRef name() const override { return "vocab"; }
  llvm::ArrayRef<llvm::StringRef> axes() const override {
    static const llvm::StringRef names[] = {"axis"};
    return names;
  }
  llvm::StringRef doc() const override {
    return "The vocabulary V of an embedding table is split over the axis. A look-up finds the rows of its "
           "own block, others are zero: a partial sum, "
           "all-reduced (2(n-1)/n of the result's bytes). A head computes the logits of its own block; the "
           "cross entropy over "
           "them exchanges three numbers a token (the maximum, the sum of exponentials, the label's logit), "
           "never the logits. V is padded "
           "to a multiple of the ranks, and the padding masked.";
  }
  // The rows of a table that is looked up, or the columns of a head.
  static int vocabulary(nn::FactorOpInterface op) {
    nn::FactorRule rule = op.getFactorRule();
    if (rule.isReshape || op->getNumOperands() < 2)
      return -1;
    int weight = parameterOperand(op);
    if (weight < 0)
      return -1;
    if (weight == 0 && !rule.operands[0].empty()) {
      int f = rule.operands[0][0];
      if (f >= 0 && rule.factors[f].kind == nn::FactorKind::Reduction && !rule.operandHas(1, f))
        return f;
    }
    for (int f : llvm::reverse(rule.results[0]))
      if (f >= 0 && rule.operandHas(weight, f) && !rule.operandHas(1 - weight, f))
        return f;
    return -1;
  }
  Applies applies(nn::FactorOpInterface op, llvm::ArrayRef<dist::AxisList> axes) const override {
    if (vocabulary(op) < 0)
      return {"'vocab' splits the rows of a table that is looked up, or the columns of the head, and this "
              "operator is neither"};
    return {};
  }
  Choice choose(nn::FactorOpInterface op, llvm::ArrayRef<dist::AxisList> axes,
                const Surroundings &) const override {
    return {{{vocabulary(op), axes[0]}}};
  }
};
RegisterPattern<Vocab> vocab;
} // namespace
