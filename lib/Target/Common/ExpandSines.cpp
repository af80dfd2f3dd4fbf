// Sine and cosine.

#include "lib/Target/Common/LowerLoops.h"
#include "lib/Target/Common/ScalarMath.h"

using namespace mlir;

namespace tessera::target {

namespace {
/// By r = x - n pi/2, |r| <= pi/4, with pi/2 in three parts (Cody and Waite 1980), and the polynomials of
/// Cephes' sinf and cosf: at most 2 ulp up to |x| = 10^6, the angles of a rotary embedding among them. MLIR's
/// expansion has pi in one part: at 40 it loses a digit, at 1000 two. From 10^7 on, where neighbouring
/// numbers are 1 apart, the result is between -1 and 1 and no more.
template <typename OpTy, int quarter> struct ExpandSine : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpTy op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32())
      return failure();
    ScalarMath s{rewriter, op.getLoc()};
    Value x = op.getOperand();
    auto [rounded, n] = s.roundedProduct(x, 0.636619772367581343f);
    Value r = s.fma(rounded, s.number(-1.57079637050628662109375f), x);
    r = s.fma(rounded, s.number(4.371138828673793e-8f), r);
    r = s.fma(rounded, s.number(1.7151245100058819e-15f), r);
    r = s.clamp(r, -1.6f, 1.6f); // for numbers too large to be reduced
    Value square = s.mul(r, r);
    Value odd = s.polynomial(square, {-1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f});
    Value sine = s.fma(s.mul(odd, square), r, r);
    Value even =
        s.polynomial(square, {2.443315711809948e-5f, -1.388731625493765e-3f, 4.166664568298827e-2f, -0.5f});
    Value cosine = s.fma(even, square, s.number(1));
    // Quarter turns: n, and one more for the cosine.
    auto low = [&](Value v, int32_t mask) -> Value {
      return arith::AndIOp::create(rewriter, s.loc, v, s.integer(mask));
    };
    Value turns = arith::AddIOp::create(rewriter, s.loc, n, s.integer(quarter));
    Value isOdd =
        arith::CmpIOp::create(rewriter, s.loc, arith::CmpIPredicate::ne, low(turns, 1), s.integer(0));
    Value sign = arith::ShLIOp::create(rewriter, s.loc, low(turns, 2), s.integer(30));
    Value chosen = s.bits(s.select(isOdd, cosine, sine));
    rewriter.replaceOp(op, s.ofBits(arith::XOrIOp::create(rewriter, s.loc, chosen, sign)));
    return success();
  }
};
} // namespace

void populateSines(RewritePatternSet &patterns) {
  patterns.add<ExpandSine<math::SinOp, 0>, ExpandSine<math::CosOp, 1>>(patterns.getContext());
}

} // namespace tessera::target
