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
  static int columns(nn::FactorOpInterface op) {
    int weight = parameterOperand(op);
    if (weight < 0)
      return -1;
    nn::FactorRule rule = op.getFactorRule();
    // The last dimension of the result that runs along the weight and not along the other operand.
    for (int f : llvm::reverse(rule.results[0]))
      if (f >= 0 && rule.operandHas(weight, f) && !rule.operandHas(1 - weight, f))
        return f;
    return -1;
  }
  Applies applies(nn::FactorOpInterface op, llvm::ArrayRef<dist::AxisList> axes) const override {
    if (op->getNumOperands() < 2 || columns(op) < 0)
      return {"'column' splits the columns of a weight, and this operator is no product with a parameter"};
    return {};
  }
  Choice choose(nn::FactorOpInterface op, llvm::ArrayRef<dist::AxisList> axes,
                const Surroundings &) const override {
    return {{{columns(op), axes[0]}}};
  }
};
RegisterPattern<Column> column;
} // namespace
