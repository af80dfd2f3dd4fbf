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
/// erf(x) = z P(z^2) / Q(z^2) with z = x clamped to [-4, 4]: the rational of Eigen's float erf; at most 5.5
/// ulp. One expression without branches, 1.7 times as fast as the piecewise one of MLIR.
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
    Value p =
        horner({-2.72614225801306e-10f, 2.77068142495902e-08f, -2.10102402082508e-06f, -5.69250639462346e-05f,
                -7.34990630326855e-04f, -2.95459980854025e-03f, -1.60960333262415e-02f});
    Value q = horner({-1.45660718464996e-05f, -2.13374055278905e-04f, -1.68282697438203e-03f,
                      -7.37332916720468e-03f, -1.42647390514189e-02f});
    Value numerator = arith::MulFOp::create(rewriter, loc, x, p);
    rewriter.replaceOpWithNewOp<arith::DivFOp>(op, numerator, q);
    return success();
  }
};
} // namespace

namespace {
/// x^y = exp(y log |x|), negative if x is and y is odd, NaN if x is negative and finite and y not an integer;
/// x^0 = 1, and (-1)^y = 1 for infinite y, as IEEE 754 has them.
struct ExpandPow : OpRewritePattern<math::PowFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(math::PowFOp op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32())
      return failure();
    Location loc = op.getLoc();
    auto constant = [&](float v) -> Value {
      return arith::ConstantOp::create(rewriter, loc, rewriter.getF32FloatAttr(v));
    };
    auto constantBool = [&](bool v) -> Value {
      return arith::ConstantOp::create(rewriter, loc, rewriter.getBoolAttr(v));
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
    Value power =
        math::ExpOp::create(rewriter, loc, arith::MulFOp::create(rewriter, loc, y, logarithm).getResult());
    Value unit = compare(arith::CmpFPredicate::OEQ, magnitude, one); // not y log 1 = infinity * 0
    power = select(unit, one, power);
    // y is even if its half is an integer, odd if it is an integer but not even.
    auto isInteger = [&](Value v) {
      return compare(arith::CmpFPredicate::OEQ, v, math::FloorOp::create(rewriter, loc, v));
    };
    Value even = isInteger(arith::MulFOp::create(rewriter, loc, y, half)), integer = isInteger(y);
    Value nan = constant(std::numeric_limits<float>::quiet_NaN());
    Value odd = select(even, constantBool(false), integer);
    Value ofSign =
        select(odd, math::CopySignOp::create(rewriter, loc, power, x), power); // a zero has a sign too
    Value infinity = constant(std::numeric_limits<float>::infinity());
    Value isNegative = arith::AndIOp::create(rewriter, loc, compare(arith::CmpFPredicate::OLT, x, zero),
                                             compare(arith::CmpFPredicate::OLT, magnitude, infinity));
    Value undefined = select(integer, constantBool(false), isNegative);
    Value result = select(undefined, nan, ofSign);
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

namespace {
/// An integer becomes bf16 by way of f32: LLVM calls a library otherwise.
template <typename OpTy> struct ConvertToBF16 : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpTy op, PatternRewriter &rewriter) const override {
    if (!op.getType().isBF16())
      return failure();
    auto wide = OpTy::create(rewriter, op.getLoc(), rewriter.getF32Type(), op.getIn());
    rewriter.replaceOpWithNewOp<arith::TruncFOp>(op, op.getType(), wide);
    return success();
  }
};
} // namespace

/// MLIR's logarithm takes numbers below the smallest normal one for that: log(x) = log(2^23 x) - 23 log(2).
static void scaleTinyLogarithms(ModuleOp module) {
  module.walk([](math::LogOp op) {
    if (!op.getType().isF32())
      return;
    OpBuilder b(op);
    Location loc = op.getLoc();
    auto constant = [&](float v) -> Value { return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(v)); };
    Value x = op.getOperand(), normal = constant(std::numeric_limits<float>::min());
    Value isTiny = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, x, normal);
    Value scaled = arith::MulFOp::create(b, loc, x, constant(0x1p23f));
    op.setOperand(arith::SelectOp::create(b, loc, isTiny, scaled, x));
    b.setInsertionPointAfter(op);
    Value lost = arith::SelectOp::create(b, loc, isTiny, constant(15.9423847198486328125f), constant(0));
    auto result = arith::SubFOp::create(b, loc, op, lost);
    op.getResult().replaceAllUsesExcept(result, result);
  });
}

LogicalResult expandMath(ModuleOp module, bool roundsToBF16, bool callsLibrary) {
  MLIRContext *context = module.getContext();
  if (failed(raiseExponentials(module)))
    return failure();
  PassManager pm(context);
  pm.addPass(math::createMathExtendToSupportedTypes({{}, "f32"}));
  if (failed(pm.run(module)))
    return failure();
  // Two rounds: functions written in terms of others (sinh by exp, pow by log) first.
  static const StringRef rewritten[] = {"sinh", "cosh",  "tan",  "asinh",     "acosh", "atanh",
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
  scaleTinyLogarithms(module);
  RewritePatternSet patterns(context);
  patterns.add<ExpandErf>(context);
  populateExponentials(patterns);
  populateSines(patterns);
  if (!callsLibrary)
    patterns.add<ExpandRemainder>(context);
  static const StringRef own[] = {"math.erf", "math.exp", "math.expm1", "math.sin", "math.cos"};
  populateMathPolynomialApproximationPatterns(patterns,
                                              [](StringRef op) { return !llvm::is_contained(own, op); });
  if (!roundsToBF16) {
    patterns.add<ConvertToBF16<arith::SIToFPOp>, ConvertToBF16<arith::UIToFPOp>>(context);
    arith::populateExpandBFloat16Patterns(patterns);
  }
  return applyPatternsGreedily(module, std::move(patterns));
}

} // namespace tessera::target
