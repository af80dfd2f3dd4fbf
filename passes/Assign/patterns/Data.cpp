// data: the batch, one block a rank.
#include "passes/Assign/Pattern.h"

using namespace tessera;

namespace {
class Data : public Pattern {
  llvm::StringRef name() const override { return "data"; }
  llvm::ArrayRef<llvm::StringRef> axes() const override {
    static const llvm::StringRef names[] = {"axis"};
    return names;
  }
  llvm::StringRef doc() const override {
    return "The first dimension of the result, the batch, is split over the axis; parameters are replicated, "
           "and the gradient of each is a partial "
           "sum that is all-reduced once a step: 2(n-1)/n of the parameters' bytes. By the recipe it is the "
           "split of the inputs, which everything follows.";
  }
  static int batch(nn::FactorOpInterface op) {
    nn::FactorRule rule = op.getFactorRule();
    return rule.isReshape || rule.results.empty() || rule.results[0].empty() ? -1 : rule.results[0][0];
  }
  Applies applies(nn::FactorOpInterface op, llvm::ArrayRef<dist::AxisList> axes) const override {
    int f = batch(op);
    if (f < 0)
      return {"'data' splits the first dimension of an operator's result, and this one has none"};
    if (op.getFactorRule().factors[f].kind == nn::FactorKind::Unsplit)
      return {"'data' splits the first dimension of an operator's result, and this operator needs it whole; "
              "split what its operands are made of"};
    return {};
  }
  Choice choose(nn::FactorOpInterface op, llvm::ArrayRef<dist::AxisList> axes,
                const Surroundings &) const override {
    return {{{batch(op), axes[0]}}};
  }
};
RegisterPattern<Data> data;
} // namespace
