// row: the rows of a weight, one block a rank (Megatron-LM, section 3).
#include "passes/Assign/Pattern.h"

using namespace tessera;

namespace {
class Row : public Pattern {
  llvm::StringRef name() const override { return "row"; }
  llvm::ArrayRef<llvm::StringRef> axes() const override {
    static const llvm::StringRef names[] = {"axis"};
    return names;
  }
  llvm::StringRef doc() const override {
    return "A product with a weight is split along the dimension it sums over: y[.., o] = x[.., i] w[i, o] "
           "with i over the axis. Each rank "
           "has a partial sum of y, all-reduced: 2(n-1)/n of y's bytes; backward it sends nothing. x is "
           "expected split as a column product "
           "leaves it. A bias is added once, after the reduction.";
  }
  Applies applies(nn::FactorOpInterface op, llvm::ArrayRef<dist::AxisList>) const override {
    auto linear = linearOf(op);
    if (!linear || linear->in < 0 || linear->lookup)
      return {"'row' splits the rows of a weight, and this operator is no product with a parameter"};
    return {};
  }
  Choice choose(nn::FactorOpInterface op, llvm::ArrayRef<dist::AxisList> axes,
                const Surroundings &) const override {
    return {{{linearOf(op)->in, axes[0]}}};
  }
};
RegisterPattern<Row> row;
} // namespace
