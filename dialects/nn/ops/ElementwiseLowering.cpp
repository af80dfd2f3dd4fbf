// The elementwise family as linalg: one generic, whose body is one operator's formula on scalars.
#include "dialects/nn/Formula.h"
#include "dialects/nn/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"
#include <numbers>

using namespace mlir;
using namespace tessera::nn;

namespace {
/// Scalar formulas. Integers are read as unsigned where the operands of `op` are.
struct Scalars : LinalgEmitter {
  Scalars(OpBuilder &b, Operation *op) : LinalgEmitter(b, op->getLoc()) {
    if (op->getNumOperands())
      isUnsigned = elementOf(op->getOperands().back()).isUnsignedInteger();
  }
  bool isUnsigned = false;

  Value number(double value, Value like) { return constant(like.getType(), value); }
  Value compare(Value x, Value y, StringRef predicate) {
    if (isa<FloatType>(x.getType())) {
      // Comparisons with NaN are false, except ne.
      auto p = llvm::StringSwitch<arith::CmpFPredicate>(predicate)
                   .Case("eq", arith::CmpFPredicate::OEQ)
                   .Case("ne", arith::CmpFPredicate::UNE)
                   .Case("lt", arith::CmpFPredicate::OLT)
                   .Case("le", arith::CmpFPredicate::OLE)
                   .Case("gt", arith::CmpFPredicate::OGT)
                   .Default(arith::CmpFPredicate::OGE);
      return arith::CmpFOp::create(b, loc, p, x, y);
    }
    bool natural = x.getType().isInteger(1) || isUnsigned;
    auto p = llvm::StringSwitch<arith::CmpIPredicate>(predicate)
                 .Case("eq", arith::CmpIPredicate::eq)
                 .Case("ne", arith::CmpIPredicate::ne)
                 .Case("lt", natural ? arith::CmpIPredicate::ult : arith::CmpIPredicate::slt)
                 .Case("le", natural ? arith::CmpIPredicate::ule : arith::CmpIPredicate::sle)
                 .Case("gt", natural ? arith::CmpIPredicate::ugt : arith::CmpIPredicate::sgt)
                 .Default(natural ? arith::CmpIPredicate::uge : arith::CmpIPredicate::sge);
    return arith::CmpIOp::create(b, loc, p, x, y);
  }
  Value select(Value c, Value x, Value y) { return arith::SelectOp::create(b, loc, c, x, y); }
  Value sigmoid(Value x) {
    return div(number(1, x), add(number(1, x), exp(arith::NegFOp::create(b, loc, x))));
  }
  Value tanh(Value x) { return math::TanhOp::create(b, loc, x); }
  /// tanh's argument in the tanh form of gelu.
  Value geluInner(Value x) {
    Value cube = mul(mul(x, x), x);
    return mul(number(std::sqrt(2 * std::numbers::inv_pi), x), add(x, mul(number(0.044715, x), cube)));
  }
  Value normalCdf(Value x) {
    Value erf = math::ErfOp::create(b, loc, mul(x, number(std::numbers::sqrt2 / 2, x)));
    return mul(number(0.5, x), add(number(1, x), erf));
  }
  Value gelu(Value x, bool byTanh) {
    if (byTanh)
      return mul(mul(number(0.5, x), x), add(number(1, x), tanh(geluInner(x))));
    return mul(x, normalCdf(x));
  }
  Value geluGrad(Value x, Value dy, bool byTanh) {
    if (!byTanh) {
      Value density = mul(number(std::numbers::inv_sqrtpi * std::numbers::sqrt2 / 2, x),
                          exp(mul(number(-0.5, x), mul(x, x))));
      return mul(dy, add(normalCdf(x), mul(x, density)));
    }
    Value t = tanh(geluInner(x));
    Value inner = mul(number(std::sqrt(2 * std::numbers::inv_pi), x),
                      add(number(1, x), mul(number(3 * 0.044715, x), mul(x, x))));
    Value slope = mul(mul(mul(number(0.5, x), x), sub(number(1, x), mul(t, t))), inner);
    return mul(dy, add(mul(number(0.5, x), add(number(1, x), t)), slope));
  }
  Value all(Value x, Value y) { return arith::AndIOp::create(b, loc, x, y); }
  /// An integer divisor by which a division is defined: 1 in place of 0, and of -1 where the dividend is the
  /// least number, whose quotient by 1 is what its negation wraps around to.
  Value safeDivisor(Value x, Value y) {
    Value overflows = all(compare(x, number(lowest(x.getType()), x), "eq"), compare(y, number(-1, y), "eq"));
    Value undefined = arith::OrIOp::create(b, loc, overflows, compare(y, number(0, y), "eq"));
    return select(undefined, number(1, y), y);
  }
  Value quotient(Value x, Value y) {
    if (isa<FloatType>(x.getType()))
      return div(x, y);
    if (isUnsigned)
      return divideUnsigned<arith::DivUIOp>(x, y);
    return select(compare(y, number(0, y), "eq"), number(0, y), div(x, safeDivisor(x, y)));
  }
  /// 0 where the divisor is.
  template <typename OpTy> Value divideUnsigned(Value x, Value y) {
    Value isZero = compare(y, number(0, y), "eq");
    return select(isZero, number(0, y), OpTy::create(b, loc, x, select(isZero, number(1, y), y)));
  }
  Value mod(Value x, Value y) {
    if (isUnsigned)
      return divideUnsigned<arith::RemUIOp>(x, y);
    bool isFloating = isa<FloatType>(x.getType());
    Value r = isFloating ? Value(arith::RemFOp::create(b, loc, x, y))
                         : Value(arith::RemSIOp::create(b, loc, x, safeDivisor(x, y)));
    // The remainder of a truncated division has the dividend's sign.
    Value zero = number(0, x);
    Value otherSign = arith::XOrIOp::create(b, loc, compare(r, zero, "lt"), compare(y, zero, "lt"));
    Value fix = all(compare(r, zero, "ne"), otherSign);
    return select(fix, add(r, y), r);
  }
  /// Truncates. What no integer can hold, NaN included, becomes the least number of 32 or 64 bits, as x86 has
  /// it; narrower types take the low bits.
  Value truncated(Value x, Type to) {
    Type wide = to.getIntOrFloatBitWidth() <= 32 ? b.getI32Type() : b.getI64Type();
    Value least = number(lowest(wide), x);
    Value fits = all(compare(x, least, "ge"), compare(x, number(-lowest(wide), x), "lt"));
    Value result = arith::FPToSIOp::create(b, loc, wide, select(fits, x, least));
    return wide == to ? result : Value(arith::TruncIOp::create(b, loc, to, result));
  }
  /// The low bits of the signed integer; of 64 bits, what they can hold without a sign.
  Value truncatedUnsigned(Value x, Type to) {
    unsigned bits = to.getIntOrFloatBitWidth();
    if (bits < 64)
      return arith::TruncIOp::create(b, loc, to, truncated(x, bits == 32 ? b.getI64Type() : b.getI32Type()));
    Value fits = all(compare(x, number(0, x), "ge"), compare(x, number(0x1p64, x), "lt"));
    Value result = arith::FPToUIOp::create(b, loc, to, select(fits, x, number(0, x)));
    return select(fits, result, truncated(x, to));
  }
  Value cast(Value x, Type to) {
    bool toUnsigned = to.isUnsignedInteger();
    to = loweredType(to);
    Type from = x.getType();
    if (from == to)
      return x;
    unsigned fromBits = from.getIntOrFloatBitWidth(), toBits = to.getIntOrFloatBitWidth();
    if (isa<FloatType>(from) && isa<FloatType>(to)) {
      if (fromBits == toBits) // bf16 and f16
        return arith::TruncFOp::create(b, loc, to, arith::ExtFOp::create(b, loc, b.getF32Type(), x));
      return fromBits < toBits ? Value(arith::ExtFOp::create(b, loc, to, x))
                               : Value(arith::TruncFOp::create(b, loc, to, x));
    }
    if (to.isInteger(1))
      return compare(x, constant(from, 0), "ne");
    if (isa<FloatType>(from) && toUnsigned)
      return truncatedUnsigned(x, to);
    if (isa<FloatType>(from))
      return truncated(x, to);
    bool natural = from.isInteger(1) || isUnsigned;
    if (isa<FloatType>(to))
      return natural ? Value(arith::UIToFPOp::create(b, loc, to, x))
                     : Value(arith::SIToFPOp::create(b, loc, to, x));
    if (fromBits >= toBits)
      return arith::TruncIOp::create(b, loc, to, x);
    return natural ? Value(arith::ExtUIOp::create(b, loc, to, x))
                   : Value(arith::ExtSIOp::create(b, loc, to, x));
  }
  Value abs(Value x) {
    if (isUnsigned)
      return x;
    return isa<FloatType>(x.getType()) ? Value(math::AbsFOp::create(b, loc, x))
                                       : Value(math::AbsIOp::create(b, loc, x));
  }
  Value max(Value x, Value y) {
    if (isa<FloatType>(x.getType()))
      return arith::MaximumFOp::create(b, loc, x, y);
    return select(compare(x, y, "gt"), x, y);
  }
  Value min(Value x, Value y) {
    if (isa<FloatType>(x.getType()))
      return arith::MinimumFOp::create(b, loc, x, y);
    return select(compare(x, y, "lt"), x, y);
  }
  Value pow(Value x, Value y) {
    if (isa<FloatType>(x.getType()))
      return math::PowFOp::create(b, loc, x, y);
    // A negative exponent's is truncated: 1, -1 or 0, and 0 of a base of 0, which math.ipowi divides by.
    Value undefined =
        arith::AndIOp::create(b, loc, compare(x, number(0, x), "eq"), compare(y, number(0, y), "lt"));
    Value power = math::IPowIOp::create(b, loc, select(undefined, number(1, x), x), y);
    return select(undefined, number(0, x), power);
  }
  Value notOf(Value x) { return arith::XOrIOp::create(b, loc, x, constant(x.getType(), -1)); }
};
} // namespace

/// The formula of `op` on scalars; null for an operator that is not of the family.
static Value formula(Operation *op, Scalars &s, ArrayRef<Value> a) {
  OpBuilder &b = s.b;
  Location loc = s.loc;
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](NegOp) {
        return isa<FloatType>(a[0].getType()) ? Value(arith::NegFOp::create(b, loc, a[0]))
                                              : s.sub(s.number(0, a[0]), a[0]);
      })
      .Case([&](AbsOp) { return s.abs(a[0]); })
      .Case([&](ExpOp) { return s.exp(a[0]); })
      .Case([&](LogOp) { return math::LogOp::create(b, loc, a[0]); })
      .Case([&](SqrtOp) { return math::SqrtOp::create(b, loc, a[0]); })
      .Case([&](RsqrtOp) { return s.div(s.number(1, a[0]), math::SqrtOp::create(b, loc, a[0])); })
      .Case([&](ReciprocalOp) { return s.div(s.number(1, a[0]), a[0]); })
      .Case([&](TanhOp) { return s.tanh(a[0]); })
      .Case([&](SigmoidOp) { return s.sigmoid(a[0]); })
      .Case([&](ReluOp) { return s.max(a[0], s.number(0, a[0])); })
      .Case([&](SiluOp) { return s.mul(a[0], s.sigmoid(a[0])); })
      .Case([&](ErfOp) { return math::ErfOp::create(b, loc, a[0]); })
      .Case([&](SinOp) { return math::SinOp::create(b, loc, a[0]); })
      .Case([&](CosOp) { return math::CosOp::create(b, loc, a[0]); })
      .Case([&](AtanOp) { return math::AtanOp::create(b, loc, a[0]); })
      .Case([&](FloorOp) { return math::FloorOp::create(b, loc, a[0]); })
      .Case([&](NotOp) { return s.notOf(a[0]); })
      .Case([&](IsNanOp) { return s.compare(a[0], a[0], "ne"); })
      .Case([&](GeluOp gelu) { return s.gelu(a[0], gelu.getTanh()); })
      .Case([&](GeluGradOp gelu) { return s.geluGrad(a[0], a[1], gelu.getTanh()); })
      .Case([&](SiluGradOp) {
        // d(x p)/dx = p (1 + x (1 - p)), p = sigmoid(x).
        Value p = s.sigmoid(a[0]), one = s.number(1, a[0]);
        return s.mul(a[1], s.mul(p, s.add(one, s.mul(a[0], s.sub(one, p)))));
      })
      .Case([&](CastOp cast) { return s.cast(a[0], cast.getTo()); })
      .Case([&](AddOp) { return s.add(a[0], a[1]); })
      .Case([&](SubOp) { return s.sub(a[0], a[1]); })
      .Case([&](MulOp) { return s.mul(a[0], a[1]); })
      .Case([&](DivOp) { return s.quotient(a[0], a[1]); })
      .Case([&](PowOp) { return s.pow(a[0], a[1]); })
      .Case([&](MaxOp) { return s.max(a[0], a[1]); })
      .Case([&](MinOp) { return s.min(a[0], a[1]); })
      .Case([&](ModOp) { return s.mod(a[0], a[1]); })
      .Case([&](AndOp) { return arith::AndIOp::create(b, loc, a[0], a[1]); })
      .Case([&](OrOp) { return arith::OrIOp::create(b, loc, a[0], a[1]); })
      .Case([&](XorOp) { return arith::XOrIOp::create(b, loc, a[0], a[1]); })
      .Case([&](CompareOp compare) { return s.compare(a[0], a[1], compare.getPredicate()); })
      .Case([&](SelectOp) { return s.select(a[0], a[1], a[2]); })
      .Case([&](AccOp) {
        Value sum = a[0];
        for (Value term : a.drop_front())
          sum = s.add(sum, term);
        return sum;
      })
      .Default([](Operation *) { return Value(); });
}

Value tessera::nn::scalarFormula(Operation *op, OpBuilder &builder, ValueRange scalars) {
  Scalars emitter(builder, op);
  return formula(op, emitter, SmallVector<Value>(scalars));
}

FailureOr<SmallVector<Value>> tessera::nn::lowerElementwise(Operation *op, OpBuilder &builder,
                                                            ValueRange operands) {
  Scalars scalars(builder, op);
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
  std::string out = freshLetters(shape.size());
  SmallVector<Lettered> inputs;
  for (Value operand : operands) {
    ArrayRef<int64_t> from = shapeOf(operand);
    std::string word = out.substr(shape.size() - from.size());
    for (size_t d = 0; d < from.size(); ++d)
      if (from[d] == 1 && shape[shape.size() - from.size() + d] != 1)
        word[d] = '1';
    inputs.push_back({operand, word});
  }
  return SmallVector<Value>{scalars.map(inputs, out, shape, elementOf(op->getResult(0)),
                                        [&](ArrayRef<Value> args) { return formula(op, scalars, args); })};
}
