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
    auto linear = linearOf(op);
    return !linear ? -1 : linear->lookup ? linear->in : linear->out;
  }
  Applies applies(nn::FactorOpInterface op, llvm::ArrayRef<dist::AxisList>) const override {
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
