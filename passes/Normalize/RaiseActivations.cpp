// GELU in both forms, and SiLU.
#include "passes/Normalize/Match.h"
#include "passes/Normalize/Patterns.h"

using namespace mlir;

namespace tessera::normalize {
namespace {

/// A product's scalar factor and its other factors.
struct Factors {
  double scalar = 1;
  llvm::SmallVector<Value> values;
};

/// Takes products apart as far as `stop` and other operators.
void collectFactors(Value value, llvm::ArrayRef<Value> stop, Factors &factors, int depth = 0) {
  Value x;
  double c;
  if (!llvm::is_contained(stop, value) && depth < 6) {
    if (matchTimesScalar(value, x, c)) {
      factors.scalar *= c;
      return collectFactors(x, stop, factors, depth + 1);
    }
    if (auto mul = value.getDefiningOp<nn::MulOp>()) {
      collectFactors(mul.getLhs(), stop, factors, depth + 1);
      return collectFactors(mul.getRhs(), stop, factors, depth + 1);
    }
  }
  factors.values.push_back(value);
}

/// Whether `value` = scalar * the values given, in any order.
bool isProduct(Value value, double scalar, llvm::ArrayRef<Value> expected, llvm::ArrayRef<Value> stop) {
  Factors factors;
  collectFactors(value, stop, factors);
  llvm::SmallVector<Value> left(factors.values);
  for (Value wanted : expected) {
    auto found = llvm::find(left, wanted);
    if (found == left.end())
      return false;
    left.erase(found);
  }
  return left.empty() && isClose(factors.scalar, scalar);
}

/// `u` = sqrt(2/pi) (x + 0.044715 x^3), also written sqrt(2/pi) x (1 + 0.044715 x^2); finds x.
bool matchTanhArgument(Value u, Value &x) {
  constexpr double root = 0.7978845608028654, cubic = 0.044715;
  Factors outer;
  collectFactors(u, {}, outer);
  if (!isClose(outer.scalar, root))
    return false;
  if (outer.values.size() == 1)
    return matchEither<nn::AddOp>(outer.values[0], [&](Value a, Value b) {
      x = a;
      return isProduct(b, cubic, {a, a, a}, {a});
    });
  for (unsigned i : {0u, 1u}) {
    double one;
    Value square;
    if (outer.values.size() != 2 || !matchPlusScalar(outer.values[1 - i], square, one) || one != 1)
      continue;
    x = outer.values[i];
    if (isProduct(square, cubic, {x, x}, {x}))
      return true;
  }
  return false;
}

/// `u` = x / sqrt(2).
bool matchErfArgument(Value u, Value &x) {
  double c;
  return matchTimesScalar(u, x, c) && isClose(c, 0.7071067811865476);
}

struct RaiseGelu : OpRewritePattern<nn::MulOp> {
  RaiseGelu(MLIRContext *context, Counter &counter) : OpRewritePattern(context, 2), counter(counter) {}
  LogicalResult matchAndRewrite(nn::MulOp op, PatternRewriter &rewriter) const override {
    // The factor 1 + tanh(u) or 1 + erf(u), at most two products away.
    Factors factors;
    collectFactors(op, {}, factors);
    for (Value factor : factors.values) {
      Value inner, x;
      double one;
      if (!matchPlusScalar(factor, inner, one) || one != 1)
        continue;
      auto tanh = inner.getDefiningOp<nn::TanhOp>();
      auto erf = inner.getDefiningOp<nn::ErfOp>();
      if (!(tanh && matchTanhArgument(tanh.getOperand(), x)) &&
          !(erf && matchErfArgument(erf.getOperand(), x)))
        continue;
      if (!isProduct(op, 0.5, {x, factor}, {x, factor}) || shapeOf(x) != shapeOf(op))
        continue;
      rewriter.replaceOpWithNewOp<nn::GeluOp>(op, x, rewriter.getBoolAttr(bool(tanh)));
      ++counter;
      return success();
    }
    return rewriter.notifyMatchFailure(op, "not x/2 (1 + tanh or erf of the right argument)");
  }
  Counter &counter;
};

struct RaiseSilu : OpRewritePattern<nn::MulOp> {
  RaiseSilu(MLIRContext *context, Counter &counter) : OpRewritePattern(context), counter(counter) {}
  LogicalResult matchAndRewrite(nn::MulOp op, PatternRewriter &rewriter) const override {
    Value x;
    if (!matchEither<nn::MulOp>(op, [&](Value a, Value b) {
          auto sigmoid = b.getDefiningOp<nn::SigmoidOp>();
          x = a;
          return sigmoid && sigmoid.getOperand() == a;
        }))
      return rewriter.notifyMatchFailure(op, "not x times its own sigmoid");
    rewriter.replaceOpWithNewOp<nn::SiluOp>(op, x);
    ++counter;
    return success();
  }
  Counter &counter;
};

} // namespace

void addGeluPatterns(RewritePatternSet &patterns, Counter &counter) {
  patterns.add<RaiseGelu>(patterns.getContext(), counter);
}
void addSiluPatterns(RewritePatternSet &patterns, Counter &counter) {
  patterns.add<RaiseSilu>(patterns.getContext(), counter);
}

} // namespace tessera::normalize
