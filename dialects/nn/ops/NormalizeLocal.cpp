// Normalisations over a dimension that is split or padded: local sums, one all-reduce of them, then
// elementwise operators.
#include "dialects/nn/OpSupport.h"

using namespace mlir;
using namespace tessera::nn;

namespace {
/// Emits the cooperative form of one operator.
struct Cooperation {
  LocalBuilder &b;
  Location loc = b.loc();
  int factor;      // the last dimension of x
  double size = 1; // its logical size

  Cooperation(LocalBuilder &builder, FactorOpInterface op, unsigned xOperand) : b(builder) {
    FactorRule rule = op.getFactorRule();
    factor = rule.operands[xOperand].back();
    size = double(rule.factors[factor].size);
  }
  bool needed(Value x) const { return b.isSplit(factor) || double(shapeOf(x).back()) != size; }
  Value mul(Value x, Value y) { return MulOp::create(b, loc, x, y); }
  Value add(Value x, Value y) { return AddOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return SubOp::create(b, loc, x, y); }
  Value wide(Value tokens) { return withTrailingOne(b, loc, tokens); }
  /// The means of `values` over the last dimension, by one all-reduce.
  SmallVector<Value> means(ArrayRef<Value> values) {
    SmallVector<Value> sums;
    for (Value value : values)
      sums.push_back(sumOver(b, loc, value, {int64_t(shapeOf(value).size()) - 1}));
    sums = allReduceTogether(b, sums, factor);
    for (Value &sum : sums)
      sum = scaled(b, loc, sum, 1 / size);
    return sums;
  }
  /// These are f32 where x is bf16 or f16.
  Value wideValue(Value value) { return castTo(b, loc, value, wideOf(elementOf(value))); }
  Value asResult(Value value, unsigned result) {
    return castTo(b, loc, value, b.resultType(result).getElementType());
  }
  /// 1/sqrt(variance + eps).
  Value inverseRoot(Value variance, double eps) {
    return RsqrtOp::create(b, loc, add(variance, scalarConstant(b, loc, elementOf(variance), eps)));
  }
};
} // namespace

LogicalResult LayerNormOp::expandLocal(LocalBuilder &builder, ValueRange operands,
                                       SmallVectorImpl<Value> &results) {
  Cooperation c(builder, *this, 0);
  Value x = operands[0];
  if (!c.needed(x))
    return cloneLocal(*this, builder, operands, results);
  x = c.wideValue(x);
  SmallVector<Value> m = c.means({x, c.mul(x, x)});
  Value variance = c.sub(m[1], c.mul(m[0], m[0]));
  // Rounding may take a variance near zero below it.
  variance = MaxOp::create(builder, c.loc, variance, scalarConstant(builder, c.loc, elementOf(x), 0));
  Value rstd = c.inverseRoot(variance, getEps().convertToDouble());
  Value normal = c.mul(c.sub(x, c.wide(m[0])), c.wide(rstd));
  Value y = c.add(c.mul(normal, c.wideValue(operands[1])), c.wideValue(operands[2]));
  results.append({c.asResult(y, 0), m[0], rstd});
  return success();
}

LogicalResult LayerNormGradOp::expandLocal(LocalBuilder &builder, ValueRange operands,
                                           SmallVectorImpl<Value> &results) {
  Cooperation c(builder, *this, 1);
  Value dy = operands[0], x = operands[1], mean = operands[2], rstd = operands[3], gamma = operands[4];
  if (!c.needed(x))
    return cloneLocal(*this, builder, operands, results);
  x = c.wideValue(x);
  Value normal = c.mul(c.sub(x, c.wide(mean)), c.wide(rstd)), g = c.mul(c.wideValue(dy), c.wideValue(gamma));
  SmallVector<Value> m = c.means({g, c.mul(g, normal)});
  Value rest = c.sub(c.sub(g, c.wide(m[0])), c.mul(normal, c.wide(m[1])));
  results.push_back(c.asResult(c.mul(rest, c.wide(rstd)), 0));
  return success();
}

LogicalResult RmsNormOp::expandLocal(LocalBuilder &builder, ValueRange operands,
                                     SmallVectorImpl<Value> &results) {
  Cooperation c(builder, *this, 0);
  Value x = operands[0];
  if (!c.needed(x))
    return cloneLocal(*this, builder, operands, results);
  x = c.wideValue(x);
  Value rstd = c.inverseRoot(c.means({c.mul(x, x)})[0], getEps().convertToDouble());
  results.append({c.asResult(c.mul(c.mul(x, c.wide(rstd)), c.wideValue(operands[1])), 0), rstd});
  return success();
}

LogicalResult RmsNormGradOp::expandLocal(LocalBuilder &builder, ValueRange operands,
                                         SmallVectorImpl<Value> &results) {
  Cooperation c(builder, *this, 1);
  Value dy = operands[0], x = operands[1], rstd = operands[2], gamma = operands[3];
  if (!c.needed(x))
    return cloneLocal(*this, builder, operands, results);
  Value normal = c.mul(c.wideValue(x), c.wide(rstd)), g = c.mul(c.wideValue(dy), c.wideValue(gamma));
  Value m = c.means({c.mul(g, normal)})[0];
  results.push_back(c.asResult(c.mul(c.sub(g, c.mul(normal, c.wide(m))), c.wide(rstd)), 0));
  return success();
}
