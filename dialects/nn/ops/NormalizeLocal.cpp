// Normalisations over a dimension that is split or padded: local statistics, one collective of them, then
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
  /// Mean and variance of x over the last dimension. Every rank has two passes over its own block; the
  /// blocks' means and sums of squared deviations are gathered, once, and merged (Chan, Golub, LeVeque:
  /// Updating Formulae and a Pairwise Algorithm for Computing Sample Variances, 1979). A sum of squares needs
  /// only an all-reduce, but E[x^2] - E[x]^2 has no digits left where the mean is large beside the deviation.
  std::pair<Value, Value> moments(Value x) {
    SmallVector<int64_t> counts = b.blockSizes(factor);
    int64_t last = shapeOf(x).size() - 1;
    Value mean = mul(sumOver(b, loc, x, {last}), ownReciprocal(counts, elementOf(x)));
    Value apart = sub(x, wide(mean)), squares = mul(apart, apart);
    if (Value valid = b.validity(factor, elementOf(x)))
      squares = mul(squares, valid);
    Value deviations = sumOver(b, loc, squares, {last});
    if (counts.size() > 1)
      std::tie(mean, deviations) = merged(mean, deviations, counts);
    return {mean, scaled(b, loc, deviations, 1 / size)};
  }
  /// 1 / the number of this rank's positions that are no padding, as a number; 0 where it has none.
  Value ownReciprocal(ArrayRef<int64_t> counts, Type element) {
    if (llvm::all_equal(counts))
      return scalarConstant(b, loc, element, 1.0 / counts[0]);
    SmallVector<double> reciprocals;
    for (int64_t count : counts)
      reciprocals.push_back(count ? 1.0 / count : 0);
    Value own = b.ownElement(perRank(reciprocals, element, 1), factor);
    return ReshapeOp::create(b, loc, RankedTensorType::get({}, element), own);
  }
  /// The mean and the sum of squared deviations of all blocks together, from those of this rank's own.
  std::pair<Value, Value> merged(Value mean, Value deviations, ArrayRef<int64_t> counts) {
    int64_t ranks = counts.size(), rank = shapeOf(mean).size() + 1;
    RankedTensorType tokens = plainType(mean);
    Type element = tokens.getElementType();
    auto shaped = [&](Value value, ArrayRef<int64_t> leading) -> Value {
      SmallVector<int64_t> shape(leading);
      llvm::append_range(shape, tokens.getShape());
      return ReshapeOp::create(b, loc, tokens.clone(shape), value);
    };
    auto one = [&](Value list, int64_t dim, int64_t at) -> Value {
      SmallVector<int64_t> starts(shapeOf(list).size(), 0), steps(starts.size(), 1), sizes(shapeOf(list));
      starts[dim] = at;
      sizes[dim] = 1;
      return SliceOp::create(b, loc, list, starts, sizes, steps);
    };
    Value own = ConcatOp::create(b, loc, ValueRange{shaped(mean, {1}), shaped(deviations, {1})}, 0);
    Value all = b.allGather(own, factor); // [ranks, 2, tokens..]
    Value means = shaped(one(all, 1, 0), {ranks}), sums = shaped(one(all, 1, 1), {ranks});
    SmallVector<double> sizes(counts), shares;
    for (double count : sizes)
      shares.push_back(count / size);
    // From the first mean on: a sum of means would be rounded at their magnitude.
    Value first = one(means, 0, 0), shift = mul(sub(means, first), perRank(shares, element, rank));
    Value whole = add(first, sumOver(b, loc, shift, {0}, true)), apart = sub(means, whole);
    Value between = mul(mul(apart, apart), perRank(sizes, element, rank));
    return {shaped(whole, {}), sumOver(b, loc, add(sums, between), {0})};
  }
  /// A number for each rank, along the first of `rank` dimensions.
  Value perRank(ArrayRef<double> values, Type element, int64_t rank) {
    SmallVector<int64_t> shape(rank, 1);
    shape[0] = values.size();
    SmallVector<APFloat> elements;
    for (double value : values)
      elements.push_back(b.getFloatAttr(element, value).getValue());
    auto type = RankedTensorType::get(shape, element);
    return ConstantOp::create(b, loc, type, DenseElementsAttr::get(type, elements));
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
  auto [mean, variance] = c.moments(x);
  Value rstd = c.inverseRoot(variance, getEps().convertToDouble());
  Value normal = c.mul(c.sub(x, c.wide(mean)), c.wide(rstd));
  Value y = c.add(c.mul(normal, c.wideValue(operands[1])), c.wideValue(operands[2]));
  results.append({c.asResult(y, 0), mean, rstd});
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
