// Sine and cosine.

#include "lib/Target/Common/LowerLoops.h"
#include "lib/Target/Common/ScalarMath.h"

using namespace mlir;

namespace tessera::target {

namespace {
/// An angle as r + n pi/2, |r| <= pi/4 or little more.
struct Reduced {
  Value r, n; // n as i32, of which the last two bits count
};

/// By pi/2 in three parts (Cody and Waite 1980): right up to 10^6. MLIR's expansion has pi in one part: at 40
/// it loses a digit, at 1000 two.
Reduced reduceSmall(ScalarMath &s, Value x) {
  auto [rounded, n] = s.roundedProduct(x, 0.636619772367581343f);
  Value r = s.fma(rounded, s.number(-1.57079637050628662109375f), x);
  r = s.fma(rounded, s.number(4.371138828673793e-8f), r);
  return {s.fma(rounded, s.number(1.7151245100058819e-15f), r), n};
}

/// By the bits of 2/pi that matter (Payne and Hanek 1983): x is m 2^(e - 150), m an integer of 24 bits, so
/// that of 2/pi 96 bits from e - 152 on give x 2/pi modulo 4 to 62 places. For 2^-7 <= |x| < infinity.
Reduced reduceAny(ScalarMath &s, Value x) {
  // Word 0 is before the point.
  static constexpr uint32_t words[] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                       0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
  using namespace arith;
  Type i64 = s.b.getI64Type();
  auto wide = [&](uint64_t v) -> Value { return ConstantIntOp::create(s.b, s.loc, i64, int64_t(v)); };
  Value bits = s.bits(x), exponent = s.make<AndIOp>(s.make<ShRUIOp>(bits, s.integer(23)), s.integer(0xff));
  Value fraction = s.make<AndIOp>(bits, s.integer(0x7fffff));
  Value m = ExtUIOp::create(s.b, s.loc, i64, s.make<OrIOp>(fraction, s.integer(0x800000)));
  Value first = s.make<SubIOp>(exponent, s.integer(120)); // counted from word 0
  Value word = s.make<ShRUIOp>(first, s.integer(5));
  Value shift = ExtUIOp::create(s.b, s.loc, i64, s.make<AndIOp>(first, s.integer(31)));
  // 32 bits from `first` + 32 `k` on.
  auto window = [&](size_t k) {
    auto pair = [&](size_t i) { return wide(uint64_t(words[i + k]) << 32 | words[i + k + 1]); };
    Value chosen = pair(0);
    for (int32_t i = 1; i <= 4; ++i) {
      Value is = CmpIOp::create(s.b, s.loc, CmpIPredicate::eq, word, s.integer(i));
      chosen = s.select(is, pair(i), chosen);
    }
    return s.make<ShRUIOp>(s.make<ShLIOp>(chosen, shift), wide(32));
  };
  Value product = s.make<ShLIOp>(s.make<MulIOp>(m, window(0)), wide(32));
  product = s.make<AddIOp>(product, s.make<MulIOp>(m, window(1)));
  product = s.make<AddIOp>(product, s.make<ShRUIOp>(s.make<MulIOp>(m, window(2)), wide(32)));
  // Two bits before the point; the nearest integer, and what is left, with a sign.
  Value quarter = s.make<ShRUIOp>(s.make<AddIOp>(product, wide(uint64_t(1) << 61)), wide(62));
  Value rest = s.make<SubIOp>(product, s.make<ShLIOp>(quarter, wide(62)));
  Value r = s.mul(SIToFPOp::create(s.b, s.loc, s.b.getF32Type(), rest), s.number(0x1.921fb6p-62f));
  Value n = TruncIOp::create(s.b, s.loc, s.b.getI32Type(), quarter);
  Value isNegative = CmpFOp::create(s.b, s.loc, CmpFPredicate::OLT, x, s.number(0));
  return {s.select(isNegative, NegFOp::create(s.b, s.loc, r), r),
          s.select(isNegative, s.make<SubIOp>(s.integer(0), n), n)};
}

/// The polynomials of Cephes' sinf and cosf on the reduced angle: at most 2 ulp.
template <typename OpTy, int quarter> struct ExpandSine : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpTy op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32())
      return failure();
    ScalarMath s{rewriter, op.getLoc()};
    Value x = op.getOperand(), magnitude = math::AbsFOp::create(rewriter, s.loc, x);
    auto compare = [&](arith::CmpFPredicate predicate, float limit) -> Value {
      return arith::CmpFOp::create(rewriter, s.loc, predicate, magnitude, s.number(limit));
    };
    Value isLarge = arith::AndIOp::create(rewriter, s.loc, compare(arith::CmpFPredicate::OGT, 0x1p17f),
                                          compare(arith::CmpFPredicate::OLT, INFINITY)); // of which it is NaN
    Reduced small = reduceSmall(s, x), any = reduceAny(s, x);
    Value r = s.select(isLarge, any.r, small.r), n = s.select(isLarge, any.n, small.n);
    Value square = s.mul(r, r);
    Value odd = s.polynomial(square, {-1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f});
    Value sine = s.fma(s.mul(odd, square), r, r);
    sine = s.select(compare(arith::CmpFPredicate::OEQ, 0), x, sine); // of -0 the sum is 0
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
