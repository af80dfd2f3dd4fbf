// Math functions as polynomials and rationals on scalars, which LLVM's loop vectoriser takes as they are.

#include "lib/Target/Common/LowerLoops.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace tessera::target {

namespace {
/// erf(x) = z P(z^2) / Q(z^2) with z = x clamped to [-4, 4]: the rational of Eigen's float erf; at most 5.5 ulp. One
/// expression without branches, 1.7 times as fast as the piecewise one of MLIR.
struct ExpandErf : OpRewritePattern<math::ErfOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(math::ErfOp op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32())
      return failure();
    Location loc = op.getLoc();
    auto constant = [&](float v) -> Value {
      return arith::ConstantOp::create(rewriter, loc, rewriter.getF32FloatAttr(v));
    };
    // As select(x < limit, x, limit) a NaN would become the limit; in this order it stays.
    Value x = op.getOperand(), high = constant(4), low = constant(-4);
    Value above = arith::CmpFOp::create(rewriter, loc, arith::CmpFPredicate::OLT, high, x);
    x = arith::SelectOp::create(rewriter, loc, above, high, x);
    Value below = arith::CmpFOp::create(rewriter, loc, arith::CmpFPredicate::OGT, low, x);
    x = arith::SelectOp::create(rewriter, loc, below, low, x);
    Value square = arith::MulFOp::create(rewriter, loc, x, x);
    auto horner = [&](ArrayRef<float> coefficients) {
      Value sum = constant(coefficients.front());
      for (float c : coefficients.drop_front())
        sum = math::FmaOp::create(rewriter, loc, sum, square, constant(c));
      return sum;
    };
    Value p = horner({-2.72614225801306e-10f, 2.77068142495902e-08f, -2.10102402082508e-06f, -5.69250639462346e-05f,
                      -7.34990630326855e-04f, -2.95459980854025e-03f, -1.60960333262415e-02f});
    Value q = horner({-1.45660718464996e-05f, -2.13374055278905e-04f, -1.68282697438203e-03f, -7.37332916720468e-03f,
                      -1.42647390514189e-02f});
    Value numerator = arith::MulFOp::create(rewriter, loc, x, p);
    rewriter.replaceOpWithNewOp<arith::DivFOp>(op, numerator, q);
    return success();
  }
};
} // namespace

namespace {
/// exp(x) = 2^n exp(r), n the integer next to x log2(e), |r| <= ln(2)/2: the polynomial of Cephes' expf, at most 1.3 ulp. The
/// scale goes on in two halves, so that results under- and overflow as they should and exp(-infinity) is 0. Half the
/// operations of MLIR's expansion, which keeps exact selections for the ends.
struct ExpandExp : OpRewritePattern<math::ExpOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(math::ExpOp op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32())
      return failure();
    Location loc = op.getLoc();
    Type i32 = rewriter.getI32Type(), f32 = rewriter.getF32Type();
    auto constant = [&](float v) -> Value {
      return arith::ConstantOp::create(rewriter, loc, rewriter.getF32FloatAttr(v));
    };
    auto integer = [&](int32_t v) -> Value { return arith::ConstantIntOp::create(rewriter, loc, v, 32); };
    auto fma = [&](Value a, Value b, Value c) -> Value { return math::FmaOp::create(rewriter, loc, a, b, c); };
    // Beyond these the result is infinity or 0. In this order of operands a NaN stays.
    Value x = op.getOperand(), high = constant(89.5f), low = constant(-104);
    Value above = arith::CmpFOp::create(rewriter, loc, arith::CmpFPredicate::OLT, high, x);
    x = arith::SelectOp::create(rewriter, loc, above, high, x);
    Value below = arith::CmpFOp::create(rewriter, loc, arith::CmpFPredicate::OGT, low, x);
    x = arith::SelectOp::create(rewriter, loc, below, low, x);
    // Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits.
    const float shift = 12582912.0f;
    Value shifted = fma(x, constant(1.44269504088896341f), constant(shift));
    Value n = arith::SubFOp::create(rewriter, loc, shifted, constant(shift));
    Value r = fma(n, constant(-0.693359375f), x);
    r = fma(n, constant(2.12194440e-4f), r);
    Value p = constant(1.9875691500e-4f);
    for (float c : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
      p = fma(p, r, constant(c));
    Value square = arith::MulFOp::create(rewriter, loc, r, r);
    Value result = fma(p, square, arith::AddFOp::create(rewriter, loc, r, constant(1)));
    Value bits = arith::BitcastOp::create(rewriter, loc, i32, shifted);
    Value exponent = arith::SubIOp::create(rewriter, loc, bits, integer(llvm::bit_cast<int32_t>(shift)));
    Value half = arith::ShRSIOp::create(rewriter, loc, exponent, integer(1));
    for (Value part : {half, arith::SubIOp::create(rewriter, loc, exponent, half).getResult()}) {
      Value biased = arith::AddIOp::create(rewriter, loc, part, integer(127));
      Value scale = arith::ShLIOp::create(rewriter, loc, biased, integer(23));
      result = arith::MulFOp::create(rewriter, loc, result, arith::BitcastOp::create(rewriter, loc, f32, scale).getResult());
    }
    rewriter.replaceOp(op, result);
    return success();
  }
};

/// x^y = exp(y log |x|), negative if x is and y is odd, NaN if x is negative and y not an integer; x^0 = 1.
struct ExpandPow : OpRewritePattern<math::PowFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(math::PowFOp op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32())
      return failure();
    Location loc = op.getLoc();
    auto constant = [&](float v) -> Value {
      return arith::ConstantOp::create(rewriter, loc, rewriter.getF32FloatAttr(v));
    };
    auto compare = [&](arith::CmpFPredicate predicate, Value a, Value b) -> Value {
      return arith::CmpFOp::create(rewriter, loc, predicate, a, b);
    };
    auto select = [&](Value condition, Value a, Value b) -> Value {
      return arith::SelectOp::create(rewriter, loc, condition, a, b);
    };
    Value x = op.getLhs(), y = op.getRhs(), zero = constant(0), one = constant(1), half = constant(0.5);
    Value magnitude = math::AbsFOp::create(rewriter, loc, x);
    Value logarithm = math::LogOp::create(rewriter, loc, magnitude);
    Value power = math::ExpOp::create(rewriter, loc, arith::MulFOp::create(rewriter, loc, y, logarithm).getResult());
    // y is even if its half is an integer, odd if it is an integer but not even.
    auto isInteger = [&](Value v) {
      return compare(arith::CmpFPredicate::OEQ, v, math::FloorOp::create(rewriter, loc, v));
    };
    Value even = isInteger(arith::MulFOp::create(rewriter, loc, y, half)), integer = isInteger(y);
    Value negated = arith::NegFOp::create(rewriter, loc, power);
    Value nan = constant(std::numeric_limits<float>::quiet_NaN());
    Value ofNegative = select(even, power, select(integer, negated, nan));
    Value result = select(compare(arith::CmpFPredicate::OLT, x, zero), ofNegative, power);
    Value trivial = arith::OrIOp::create(rewriter, loc, compare(arith::CmpFPredicate::OEQ, y, zero),
                                         compare(arith::CmpFPredicate::OEQ, x, one));
    rewriter.replaceOp(op, select(trivial, one, result));
    return success();
  }
};

/// x - n y, n the integer that x / y is when truncated: exact for any quotient, as C's fmod. y is doubled
/// while x has room for it twice, then halved again; what is subtracted on the way down is between half of
/// the rest and all of it, so no difference rounds.
struct ExpandRemainder : OpRewritePattern<arith::RemFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::RemFOp op, PatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    auto type = cast<FloatType>(op.getType());
    auto constant = [&](double v) -> Value {
      return arith::ConstantOp::create(rewriter, loc, rewriter.getFloatAttr(type, v));
    };
    auto compare = [&](arith::CmpFPredicate predicate, Value a, Value b) -> Value {
      return arith::CmpFOp::create(rewriter, loc, predicate, a, b);
    };
    auto select = [&](Value condition, Value a, Value b) -> Value {
      return arith::SelectOp::create(rewriter, loc, condition, a, b);
    };
    auto times = [&](Value a, double b) -> Value {
      return arith::MulFOp::create(rewriter, loc, a, constant(b));
    };
    using Values = ArrayRef<Value>;
    auto loop = [&](ValueRange initial, function_ref<Value(Values)> condition,
                    function_ref<SmallVector<Value>(Values)> next) {
      return scf::WhileOp::create(
          rewriter, loc, initial.getTypes(), initial,
          [&](OpBuilder &, Location, ValueRange a) {
            scf::ConditionOp::create(rewriter, loc, condition(llvm::to_vector(a)), a);
          },
          [&](OpBuilder &, Location, ValueRange a) {
            scf::YieldOp::create(rewriter, loc, next(llvm::to_vector(a)));
          });
    };
    Value x = op.getLhs(), y = op.getRhs();
    Value a = math::AbsFOp::create(rewriter, loc, x), b = math::AbsFOp::create(rewriter, loc, y);
    // Not so for NaN, of which the quotient is one; then, and where there is nothing to subtract, the loops
    // end at once.
    Value defined = arith::AndIOp::create(rewriter, loc, compare(arith::CmpFPredicate::OGT, b, constant(0)),
                                          compare(arith::CmpFPredicate::OLT, a, constant(INFINITY)));
    Value some = arith::AndIOp::create(rewriter, loc, defined, compare(arith::CmpFPredicate::OGE, a, b));
    Value rest = select(some, a, constant(0)), least = select(some, b, constant(1));
    Value largest =
        loop(
            {least}, [&](Values v) { return compare(arith::CmpFPredicate::OLE, times(v[0], 2), rest); },
            [&](Values v) { return SmallVector<Value>{times(v[0], 2)}; })
            .getResult(0);
    rest = loop(
               {rest, largest}, [&](Values v) { return compare(arith::CmpFPredicate::OGE, v[1], least); },
               [&](Values v) {
                 Value less = arith::SubFOp::create(rewriter, loc, v[0], v[1]);
                 return SmallVector<Value>{select(compare(arith::CmpFPredicate::OGE, v[0], v[1]), less, v[0]),
                                           times(v[1], 0.5)};
               })
               .getResult(0);
    Value result = select(some, math::CopySignOp::create(rewriter, loc, rest, x), x);
    rewriter.replaceOp(op, select(defined, result, constant(NAN)));
    return success();
  }
};

} // namespace

LogicalResult expandMath(ModuleOp module, bool roundsToBF16, bool callsLibrary) {
  MLIRContext *context = module.getContext();
  PassManager pm(context);
  pm.addPass(math::createMathExtendToSupportedTypes({{}, "f32"}));
  if (failed(pm.run(module)))
    return failure();
  // Two rounds: functions written in terms of others (sinh by exp, pow by log) first.
  static const StringRef rewritten[] = {"sinh",  "cosh", "tan",  "asinh", "acosh",    "atanh",
                                        "exp2", "fpowi", "ceil", "roundeven", "clampf"};
  bool hasF64 = false;
  module.walk([&](Operation *op) {
    if (isa_and_nonnull<math::MathDialect>(op->getDialect()) && op->getNumResults() == 1)
      hasF64 |= op->getResult(0).getType().isF64();
  });
  if (!hasF64) {
    RewritePatternSet patterns(context);
    populateMathAlgebraicSimplificationPatterns(patterns); // small constant powers
    patterns.add<ExpandPow>(context);
    math::populateExpansionPatterns(patterns, rewritten);
    if (failed(applyPatternsGreedily(module, std::move(patterns))))
      return failure();
  }
  RewritePatternSet patterns(context);
  patterns.add<ExpandErf, ExpandExp>(context);
  if (!callsLibrary)
    patterns.add<ExpandRemainder>(context);
  populateMathPolynomialApproximationPatterns(patterns, [](StringRef op) { return op != "math.erf" && op != "math.exp"; });
  if (!roundsToBF16)
    arith::populateExpandBFloat16Patterns(patterns);
  return applyPatternsGreedily(module, std::move(patterns));
}

} // namespace tessera::target
