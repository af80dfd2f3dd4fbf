// column: the columns of a weight, one block a rank (Megatron-LM, section 3).
#include "passes/Assign/Pattern.h"

using namespace tessera;

namespace {
class Column : public Pattern {
  llvm::StringRef name() const override { return "column"; }
  llvm::ArrayRef<llvm::StringRef> axes() const override {
    static const llvm::StringRef names[] = {"axis"};
    return names;
  }
  llvm::StringRef doc() const override {
    return "A product with a weight is split along the weight's output columns: y[.., o] = x[.., i] w[i, o] "
           "with o over the axis. Forward it "
           "sends nothing where x is replicated; backward the cotangent of x, a partial sum, is all-reduced: "
           "2(n-1)/n of x's bytes. "
           "The bias is split with the columns. Attention between a column and a row product works on its "
           "own heads.";
  }
  Applies applies(nn::FactorOpInterface op, llvm::ArrayRef<dist::AxisList>) const override {
    auto linear = linearOf(op);
    if (!linear || linear->out < 0)
      return {"'column' splits the columns of a weight, and this operator is no product with a parameter"};
    return {};
  }
  Choice choose(nn::FactorOpInterface op, llvm::ArrayRef<dist::AxisList> axes,
                const Surroundings &) const override {
    return {{{linearOf(op)->out, axes[0]}}};
  }
};
RegisterPattern<Column> column;
} // namespace
