// What the expansions of math functions are made of: scalar arithmetic in f32.
#ifndef TESSERA_LIB_TARGET_COMMON_SCALARMATH_H
#define TESSERA_LIB_TARGET_COMMON_SCALARMATH_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/PatternMatch.h"

namespace tessera::target {

struct ScalarMath {
  mlir::PatternRewriter &b;
  mlir::Location loc;

  mlir::Value number(float v) { return mlir::arith::ConstantOp::create(b, loc, b.getF32FloatAttr(v)); }
  mlir::Value integer(int32_t v) { return mlir::arith::ConstantIntOp::create(b, loc, v, 32); }
  template <typename OpTy> mlir::Value make(mlir::Value x, mlir::Value y) {
    return OpTy::create(b, loc, x, y);
  }
  mlir::Value add(mlir::Value x, mlir::Value y) { return mlir::arith::AddFOp::create(b, loc, x, y); }
  mlir::Value sub(mlir::Value x, mlir::Value y) { return mlir::arith::SubFOp::create(b, loc, x, y); }
  mlir::Value mul(mlir::Value x, mlir::Value y) { return mlir::arith::MulFOp::create(b, loc, x, y); }
  mlir::Value fma(mlir::Value x, mlir::Value y, mlir::Value z) {
    return mlir::math::FmaOp::create(b, loc, x, y, z);
  }
  mlir::Value bits(mlir::Value x) { return mlir::arith::BitcastOp::create(b, loc, b.getI32Type(), x); }
  mlir::Value ofBits(mlir::Value x) { return mlir::arith::BitcastOp::create(b, loc, b.getF32Type(), x); }
  mlir::Value select(mlir::Value c, mlir::Value x, mlir::Value y) {
    return mlir::arith::SelectOp::create(b, loc, c, x, y);
  }

  /// Between the limits; a NaN stays one.
  mlir::Value clamp(mlir::Value x, float low, float high) {
    using mlir::arith::CmpFPredicate;
    mlir::Value least = number(low), most = number(high);
    x = select(mlir::arith::CmpFOp::create(b, loc, CmpFPredicate::OLT, most, x), most, x);
    return select(mlir::arith::CmpFOp::create(b, loc, CmpFPredicate::OGT, least, x), least, x);
  }
  /// Coefficients of falling powers.
  mlir::Value polynomial(mlir::Value x, llvm::ArrayRef<float> coefficients) {
    mlir::Value sum = number(coefficients.front());
    for (float c : coefficients.drop_front())
      sum = fma(sum, x, number(c));
    return sum;
  }
  /// The integer next to x factor, as f32 and as i32; right up to 2^22.
  std::pair<mlir::Value, mlir::Value> roundedProduct(mlir::Value x, float factor) {
    // Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits.
    const float shift = 12582912.0f;
    mlir::Value shifted = fma(x, number(factor), number(shift));
    mlir::Value low =
        mlir::arith::SubIOp::create(b, loc, bits(shifted), integer(llvm::bit_cast<int32_t>(shift)));
    return {sub(shifted, number(shift)), low};
  }
  /// 2^exponent, a normal number.
  mlir::Value power(mlir::Value exponent) {
    mlir::Value biased = mlir::arith::AddIOp::create(b, loc, exponent, integer(127));
    return ofBits(mlir::arith::ShLIOp::create(b, loc, biased, integer(23)));
  }
};

} // namespace tessera::target
#endif
