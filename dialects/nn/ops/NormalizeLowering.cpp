// Normalisations as linalg: row statistics, then one elementwise generic.
#include "dialects/nn/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace tessera::nn;

namespace {
/// Rows of x: the letters and shapes of x, of its rows' statistics and of its last dimension.
struct Rows : LinalgEmitter {
  std::string all, tokens, last;
  SmallVector<int64_t> shape, tokenShape;
  Type element;
  double size;

  Rows(OpBuilder &builder, Location loc, Value x)
      : LinalgEmitter(builder, loc), all(freshLetters(shapeOf(x).size())),
        tokens(all.substr(0, all.size() - 1)), last(all.substr(all.size() - 1)), shape(shapeOf(x)),
        tokenShape(shapeOf(x).drop_back()), element(elementOf(x)), size(double(shape.back())) {}

  using F = function_ref<Value(ArrayRef<Value>)>;
  Value sumRows(ArrayRef<Lettered> inputs, F body) { return sum(inputs, tokens, tokenShape, element, body); }
  Value mapRows(ArrayRef<Lettered> inputs, F body) { return map(inputs, tokens, tokenShape, element, body); }
  Value mapAll(ArrayRef<Lettered> inputs, F body) { return map(inputs, all, shape, element, body); }
  Value perSize(Value sum) { return mul(sum, constant(element, 1 / size)); }
  /// 1/sqrt(sum/size + eps) by rows.
  Value inverseRoot(Value sum, double eps) {
    return mapRows({{sum, tokens}}, [&](ArrayRef<Value> a) {
      return div(constant(element, 1),
                 math::SqrtOp::create(b, loc, add(perSize(a[0]), constant(element, eps))));
    });
  }
};
} // namespace

FailureOr<SmallVector<Value>> SoftmaxOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  Rows e(builder, getLoc(), operands[0]);
  Lettered x{operands[0], e.all};
  Value max = e.max(x, e.tokens, e.tokenShape);
  // A row of -inf alone has maximum -inf: its exponentials, of NaN, are NaN as in PyTorch.
  SmallVector<Value> both =
      e.generic({x, {max, e.tokens}},
                {{e.empty(e.shape, e.element), e.all}, {e.filled(e.tokenShape, e.element, 0), e.tokens}},
                [&](ArrayRef<Value> a) {
                  Value p = e.exp(e.sub(a[0], a[1]));
                  return SmallVector<Value>{p, e.add(a[3], p)};
                });
  Value inverse = e.mapRows({{both[1], e.tokens}},
                            [&](ArrayRef<Value> a) { return e.div(e.constant(e.element, 1), a[0]); });
  return SmallVector<Value>{e.mapAll({{both[0], e.all}, {inverse, e.tokens}},
                                     [&](ArrayRef<Value> a) { return e.mul(a[0], a[1]); })};
}

FailureOr<SmallVector<Value>> SoftmaxGradOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  Rows e(builder, getLoc(), operands[0]);
  Lettered y{operands[0], e.all}, dy{operands[1], e.all};
  Value dot = e.sumRows({y, dy}, [&](ArrayRef<Value> a) { return e.mul(a[0], a[1]); });
  return SmallVector<Value>{
      e.mapAll({y, dy, {dot, e.tokens}}, [&](ArrayRef<Value> a) { return e.mul(a[0], e.sub(a[1], a[2])); })};
}

FailureOr<SmallVector<Value>> LayerNormOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  Rows e(builder, getLoc(), operands[0]);
  Lettered x{operands[0], e.all};
  Value sum = e.sumRows({x}, [](ArrayRef<Value> a) { return a[0]; });
  Value mean = e.mapRows({{sum, e.tokens}}, [&](ArrayRef<Value> a) { return e.perSize(a[0]); });
  Value squares = e.sumRows({x, {mean, e.tokens}}, [&](ArrayRef<Value> a) {
    Value centred = e.sub(a[0], a[1]);
    return e.mul(centred, centred);
  });
  Value rstd = e.inverseRoot(squares, getEps().convertToDouble());
  Value y =
      e.mapAll({x, {mean, e.tokens}, {rstd, e.tokens}, {operands[1], e.last}, {operands[2], e.last}},
               [&](ArrayRef<Value> a) { return e.add(e.mul(e.mul(e.sub(a[0], a[1]), a[2]), a[3]), a[4]); });
  return SmallVector<Value>{y, mean, rstd};
}

FailureOr<SmallVector<Value>> LayerNormGradOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  Rows e(builder, getLoc(), operands[1]);
  Lettered dy{operands[0], e.all}, x{operands[1], e.all}, mean{operands[2], e.tokens},
      rstd{operands[3], e.tokens}, gamma{operands[4], e.last};
  // The sums of g = dy gamma and of g times the normalised x, in one pass.
  Value zero = e.filled(e.tokenShape, e.element, 0);
  SmallVector<Value> sums =
      e.generic({dy, x, mean, rstd, gamma}, {{zero, e.tokens}, {zero, e.tokens}}, [&](ArrayRef<Value> a) {
        Value g = e.mul(a[0], a[4]), normal = e.mul(e.sub(a[1], a[2]), a[3]);
        return SmallVector<Value>{e.add(a[5], g), e.add(a[6], e.mul(g, normal))};
      });
  return SmallVector<Value>{
      e.mapAll({dy, x, mean, rstd, gamma, {sums[0], e.tokens}, {sums[1], e.tokens}}, [&](ArrayRef<Value> a) {
        Value g = e.mul(a[0], a[4]), normal = e.mul(e.sub(a[1], a[2]), a[3]);
        return e.mul(a[3], e.sub(e.sub(g, e.perSize(a[5])), e.mul(normal, e.perSize(a[6]))));
      })};
}

FailureOr<SmallVector<Value>> LayerNormGradAffineOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  Rows e(builder, getLoc(), operands[1]);
  Value zero = e.filled({e.shape.back()}, e.element, 0);
  return e.generic(
      {{operands[0], e.all}, {operands[1], e.all}, {operands[2], e.tokens}, {operands[3], e.tokens}},
      {{zero, e.last}, {zero, e.last}}, [&](ArrayRef<Value> a) {
        Value normal = e.mul(e.sub(a[1], a[2]), a[3]);
        return SmallVector<Value>{e.add(a[4], e.mul(a[0], normal)), e.add(a[5], a[0])};
      });
}

FailureOr<SmallVector<Value>> RmsNormOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  Rows e(builder, getLoc(), operands[0]);
  Lettered x{operands[0], e.all};
  Value rstd = e.inverseRoot(e.sumRows({x}, [&](ArrayRef<Value> a) { return e.mul(a[0], a[0]); }),
                             getEps().convertToDouble());
  Value y = e.mapAll({x, {rstd, e.tokens}, {operands[1], e.last}},
                     [&](ArrayRef<Value> a) { return e.mul(e.mul(a[0], a[1]), a[2]); });
  return SmallVector<Value>{y, rstd};
}

FailureOr<SmallVector<Value>> RmsNormGradOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  Rows e(builder, getLoc(), operands[1]);
  Lettered dy{operands[0], e.all}, x{operands[1], e.all}, rstd{operands[2], e.tokens},
      gamma{operands[3], e.last};
  Value sum = e.sumRows({dy, x, rstd, gamma},
                        [&](ArrayRef<Value> a) { return e.mul(e.mul(a[0], a[3]), e.mul(a[1], a[2])); });
  return SmallVector<Value>{e.mapAll({dy, x, rstd, gamma, {sum, e.tokens}}, [&](ArrayRef<Value> a) {
    Value normal = e.mul(a[1], a[2]);
    return e.mul(a[2], e.sub(e.mul(a[0], a[3]), e.mul(normal, e.perSize(a[4]))));
  })};
}

FailureOr<SmallVector<Value>> RmsNormGradAffineOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  Rows e(builder, getLoc(), operands[1]);
  return SmallVector<Value>{e.sum({{operands[0], e.all}, {operands[1], e.all}, {operands[2], e.tokens}},
                                  e.last, {e.shape.back()}, e.element,
                                  [&](ArrayRef<Value> a) { return e.mul(a[0], e.mul(a[1], a[2])); })};
}

FailureOr<SmallVector<Value>> RotaryOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  Rows e(builder, getLoc(), operands[0]);
  int64_t half = e.shape.back() / 2;
  FactorRule rule = getFactorRule();
  auto at = [&](Value table, unsigned operand, ArrayRef<Value> where) -> Value {
    SmallVector<Value> place;
    ArrayRef<int> dims = rule.operands[operand];
    for (size_t d = 0; d < dims.size(); ++d)
      place.push_back(dims[d] < 0 ? e.index(0) : where[where.size() - dims.size() + d]);
    return tensor::ExtractOp::create(builder, getLoc(), table, place);
  };
  return SmallVector<Value>{e.mapAll({{operands[0], e.all}}, [&](ArrayRef<Value> a) -> Value {
    SmallVector<Value> here;
    for (char c : e.all)
      here.push_back(e.position(c));
    Value isLow =
        arith::CmpIOp::create(builder, getLoc(), arith::CmpIPredicate::ult, here.back(), e.index(half));
    Value up = arith::AddIOp::create(builder, getLoc(), here.back(), e.index(half));
    Value down = arith::SubIOp::create(builder, getLoc(), here.back(), e.index(half));
    SmallVector<Value> other(here);
    other.back() = arith::SelectOp::create(builder, getLoc(), isLow, up, down);
    Value turned = e.mul(at(operands[0], 0, other), at(operands[2], 2, getInverse() ? other : here));
    Value minus = arith::NegFOp::create(builder, getLoc(), turned);
    // Forward the lower half takes minus the upper one; the transpose has the signs the other way round.
    Value term = getInverse() ? arith::SelectOp::create(builder, getLoc(), isLow, turned, minus)
                              : arith::SelectOp::create(builder, getLoc(), isLow, minus, turned);
    return e.add(e.mul(a[0], at(operands[1], 1, here)), term);
  })};
}
