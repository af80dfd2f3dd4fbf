// Exponentials and their inverse where results are small.

#include "lib/Target/Common/LowerLoops.h"
#include "lib/Target/Common/ScalarMath.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace tessera::target {

namespace {
/// e^x - 1.
struct RaiseExpm1 : OpRewritePattern<arith::SubFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::SubFOp op, PatternRewriter &rewriter) const override {
    auto exp = op.getLhs().getDefiningOp<math::ExpOp>();
    if (!exp || !matchPattern(op.getRhs(), m_OneFloat()))
      return failure();
    rewriter.replaceOpWithNewOp<math::ExpM1Op>(op, exp.getOperand());
    return success();
  }
};

/// log(1 + x).
struct RaiseLog1p : OpRewritePattern<math::LogOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(math::LogOp op, PatternRewriter &rewriter) const override {
    auto sum = op.getOperand().getDefiningOp<arith::AddFOp>();
    if (!sum)
      return failure();
    for (auto [one, x] : {std::pair(sum.getLhs(), sum.getRhs()), std::pair(sum.getRhs(), sum.getLhs())})
      if (matchPattern(one, m_OneFloat())) {
        rewriter.replaceOpWithNewOp<math::Log1pOp>(op, x);
        return success();
      }
    return failure();
  }
};

/// e^x = 2^n (1 + r + r^2 p), n the integer next to x log2(e), |r| <= ln(2)/2: the polynomial of Cephes'
/// expf.
struct ReducedExp {
  Value n, r, square, p; // n as i32
  ReducedExp(ScalarMath &s, Value x) {
    auto [rounded, integer] = s.roundedProduct(x, 1.44269504088896341f);
    n = integer;
    r = s.fma(rounded, s.number(-0.693359375f), x);
    r = s.fma(rounded, s.number(2.12194440e-4f), r);
    p = s.polynomial(r, {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f,
                         1.6666665459e-1f, 5.0000001201e-1f});
    square = s.mul(r, r);
  }
};

/// At most 1.3 ulp. The scale goes on in two halves, so that results under- and overflow as they should and
/// exp(-infinity) is 0. Half the operations of MLIR's expansion, which keeps exact selections for the ends.
struct ExpandExp : OpRewritePattern<math::ExpOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(math::ExpOp op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32())
      return failure();
    ScalarMath s{rewriter, op.getLoc()};
    // Beyond these the result is infinity or 0.
    ReducedExp e(s, s.clamp(op.getOperand(), -104, 89.5f));
    Value result = s.fma(e.p, e.square, s.add(e.r, s.number(1)));
    Value half = arith::ShRSIOp::create(rewriter, s.loc, e.n, s.integer(1));
    for (Value part : {half, arith::SubIOp::create(rewriter, s.loc, e.n, half).getResult()})
      result = s.mul(result, s.power(part));
    rewriter.replaceOp(op, result);
    return success();
  }
};

/// e^x - 1 = 2 (h (r + r^2 p) + (h - 1/2)) with h = 2^(n-1): where x is small h is 1/2, and nothing cancels.
/// At most 2 ulp.
struct ExpandExpm1 : OpRewritePattern<math::ExpM1Op> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(math::ExpM1Op op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32())
      return failure();
    ScalarMath s{rewriter, op.getLoc()};
    // Beyond these the result is infinity or -1.
    ReducedExp e(s, s.clamp(op.getOperand(), -30, 89));
    Value h = s.power(arith::SubIOp::create(rewriter, s.loc, e.n, s.integer(1)));
    Value half = s.fma(h, s.fma(e.p, e.square, e.r), s.sub(h, s.number(0.5f)));
    rewriter.replaceOp(op, s.add(half, half));
    return success();
  }
};

/// A function of f64 by the C library's name. LLVM has none, and MLIR's expansions lose the digits again.
template <typename OpTy> struct CallInF64 : OpRewritePattern<OpTy> {
  StringRef name;
  CallInF64(MLIRContext *context, StringRef name) : OpRewritePattern<OpTy>(context), name(name) {}
  LogicalResult matchAndRewrite(OpTy op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF64())
      return failure();
    auto module = op->template getParentOfType<ModuleOp>();
    auto function = module.template lookupSymbol<func::FuncOp>(name);
    if (!function) {
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPointToStart(module.getBody());
      Type f64 = rewriter.getF64Type();
      function = func::FuncOp::create(rewriter, op.getLoc(), name, rewriter.getFunctionType({f64}, {f64}));
      function.setPrivate();
    }
    rewriter.replaceOpWithNewOp<func::CallOp>(op, function, op->getOperands());
    return success();
  }
};
} // namespace

LogicalResult raiseExponentials(ModuleOp module) {
  RewritePatternSet patterns(module.getContext());
  patterns.add<RaiseExpm1, RaiseLog1p>(module.getContext());
  return applyPatternsGreedily(module, std::move(patterns));
}

void populateExponentials(RewritePatternSet &patterns) {
  patterns.add<ExpandExp, ExpandExpm1>(patterns.getContext());
  patterns.add<CallInF64<math::ExpM1Op>>(patterns.getContext(), "expm1");
  patterns.add<CallInF64<math::Log1pOp>>(patterns.getContext(), "log1p");
}

} // namespace tessera::target
