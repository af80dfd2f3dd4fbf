// Elementwise operators.
#include "lib/Import/Importer.h"
#include "lib/Import/ops/Families.h"
#include <cmath>

using namespace mlir;

namespace tessera {
namespace {

template <typename OpTy> void unary(NodeImport &n) { n.out(n.e.emit<OpTy>(n.in(0))); }
template <typename OpTy> void binary(NodeImport &n) { n.out(n.e.binary<OpTy>(n.in(0), n.in(1))); }

/// Min, Max, Sum: any number of operands.
template <typename OpTy> void variadic(NodeImport &n) {
  Value result = n.in(0);
  for (size_t i = 1; i < n.node.inputs.size(); ++i)
    result = n.e.binary<OpTy>(result, n.in(i));
  n.out(result);
}

template <int predicate> void compare(NodeImport &n) {
  static constexpr const char *names[] = {"eq", "lt", "le", "gt", "ge"};
  n.out(n.e.compare(n.in(0), n.in(1), names[predicate]));
}

/// A floating base to an integer exponent. Large odd ones become even as floats: then the sign of a negative
/// base, or of -0, whose reciprocal tells it, is put back.
Value powOfFloat(Emitter &e, Value base, Value exponent) {
  Type type = elementOf(base), of = elementOf(exponent);
  Value asFloat = e.cast(exponent, type), power = e.binary<nn::PowOp>(base, asFloat);
  const HostTensor *known = e.known(exponent);
  int64_t exact = int64_t(1) << cast<FloatType>(type).getFPMantissaWidth();
  if (known && llvm::all_of(known->i, [&](int64_t v) { return v >= -exact && v <= exact; }))
    return power;
  Value zero = e.scalarLike(base, 0), one = e.scalarLike(exponent, 1);
  auto lastBit = [&](Value value) { return e.binary<nn::AndOp>(value, one); };
  Value changed = e.compare(lastBit(exponent), lastBit(e.cast(asFloat, of)), "ne");
  Value negative =
      e.binary<nn::OrOp>(e.compare(base, zero, "lt"), e.compare(e.emit<nn::ReciprocalOp>(base), zero, "lt"));
  Value flips = e.binary<nn::AndOp>(changed, negative);
  return e.emit<nn::SelectOp>({flips, e.emit<nn::NegOp>(power), power});
}

/// A u64 exponent as one below 2^63 that gives the same power: those of odd numbers repeat after 2^62, and of
/// even ones nothing is left from 64 on.
Value withinSigned(Emitter &e, Value exponent) {
  Value period = e.scalarLike(exponent, 0x1p62);
  Value rest = e.binary<nn::AndOp>(exponent, e.binary<nn::SubOp>(period, e.scalarLike(exponent, 1)));
  Value below = e.binary<nn::AddOp>(rest, period);
  return e.emit<nn::SelectOp>({e.compare(exponent, period, "gt"), below, exponent});
}

void pow(NodeImport &n) {
  Value base = n.in(0), exponent = n.in(1);
  const HostTensor *known = n.e.known(exponent);
  std::optional<double> value = known && rankOf(exponent) == 0 ? known->scalar() : std::nullopt;
  if (value == 2.0) // exact, and cheap to differentiate
    return n.out(n.e.binary<nn::MulOp>(base, base));
  if (value == 0.5 && isa<FloatType>(elementOf(base)))
    return n.out(n.e.emit<nn::SqrtOp>(base));
  Type type = elementOf(base), of = elementOf(exponent), computed = type;
  if (isa<FloatType>(type) && isa<IntegerType>(of))
    return n.out(powOfFloat(n.e, base, exponent));
  if (of.isUnsignedInteger(64))
    exponent = withinSigned(n.e, exponent);
  if (isa<IntegerType>(of)) // in a type that holds both: what is cut off does not reach down
    computed = of.isUnsignedInteger() || of.getIntOrFloatBitWidth() > type.getIntOrFloatBitWidth()
                   ? Type(n.e.builder.getI64Type())
                   : type;
  else if (isa<IntegerType>(type))
    computed = n.e.builder.getF64Type();
  n.out(n.e.cast(n.e.binary<nn::PowOp>(n.e.cast(base, computed), n.e.cast(exponent, computed)), type));
}

void mod(NodeImport &n) {
  if (!n.intAttr("fmod", 0) || elementOf(n.in(0)).isUnsignedInteger())
    return n.out(n.e.binary<nn::ModOp>(n.in(0), n.in(1)));
  // C's remainder, with the sign of x.
  Value x = n.in(0), y = n.in(1);
  if (isa<IntegerType>(elementOf(x))) { // by 0 the quotient is 0, and so is the remainder
    Value zero = n.e.scalarLike(x, 0);
    Value rest = n.e.binary<nn::SubOp>(x, n.e.binary<nn::MulOp>(y, n.e.binary<nn::DivOp>(x, y)));
    return n.out(n.e.emit<nn::SelectOp>({n.e.compare(y, zero, "eq"), zero, rest}));
  }
  Value rest = n.e.binary<nn::ModOp>(n.e.emit<nn::AbsOp>(x), n.e.emit<nn::AbsOp>(y));
  Value negative = n.e.compare(x, n.e.scalarLike(x, 0), "lt");
  Value other = n.e.emit<nn::SelectOp>({negative, n.e.emit<nn::NegOp>(rest), rest});
  Value zero = n.e.scalarLike(x, 0), isZero = n.e.compare(rest, zero, "eq"); // a zero has the sign of x
  n.out(n.e.emit<nn::SelectOp>({isZero, n.e.binary<nn::MulOp>(x, zero), other}));
}

void where(NodeImport &n) { n.out(n.e.emit<nn::SelectOp>({n.in(0), n.in(1), n.in(2)})); }
void identity(NodeImport &n) { n.out(n.in(0)); }
void cast(NodeImport &n) {
  n.ignore({"saturate", "round_mode"}); // of types of 8 bits, which are not supported
  Type type = elementType(n.e.builder.getContext(), static_cast<OnnxType>(n.intAttr("to", 0)));
  if (!type)
    n.fail("cannot cast to element type " + llvm::Twine(n.intAttr("to", 0)));
  n.out(n.e.cast(n.in(0), type));
}
void castLike(NodeImport &n) {
  n.ignore({"saturate", "round_mode"});
  n.out(n.e.cast(n.in(0), elementOf(n.in(1))));
}

void gelu(NodeImport &n) {
  std::string form = n.stringAttr("approximate", "none");
  if (form != "none" && form != "tanh")
    n.fail("Gelu's approximate is '" + form + "', expected none or tanh");
  n.out(n.e.emit<nn::GeluOp>(n.in(0),
                             n.e.builder.getNamedAttr("tanh", n.e.builder.getBoolAttr(form == "tanh"))));
}

Value clip(NodeImport &n, Value x, std::optional<double> low, std::optional<double> high) {
  if (low)
    x = n.e.binary<nn::MaxOp>(x, n.e.scalarLike(x, *low));
  return high ? n.e.binary<nn::MinOp>(x, n.e.scalarLike(x, *high)) : x;
}
void clip(NodeImport &n) {
  Value x = n.in(0);
  if (n.has(1))
    x = n.e.binary<nn::MaxOp>(x, n.in(1));
  if (n.has(2))
    x = n.e.binary<nn::MinOp>(x, n.in(2));
  n.out(x);
}
Value hardSigmoid(NodeImport &n, Value x, double alpha, double beta) {
  Value line =
      n.e.binary<nn::AddOp>(n.e.binary<nn::MulOp>(x, n.e.scalarLike(x, alpha)), n.e.scalarLike(x, beta));
  return clip(n, line, 0, 1);
}
void hardSigmoid(NodeImport &n) {
  n.out(hardSigmoid(n, n.in(0), n.floatAttr("alpha", 0.2f), n.floatAttr("beta", 0.5)));
}
void hardSwish(NodeImport &n) {
  n.out(n.e.binary<nn::MulOp>(n.in(0), hardSigmoid(n, n.in(0), 1.0 / 6, 0.5)));
}

/// The function of a known value; null where the program computes `x`.
Value ofKnown(NodeImport &n, Value x, double (*function)(double)) {
  const HostTensor *known = n.e.known(x);
  if (!known)
    return nullptr;
  HostTensor result = *known;
  for (double &value : result.f)
    value = roundTo(result.type, function(value));
  return n.e.constant(std::move(result));
}

/// e^x - 1 and log(1 + x). Kernels compute these forms with all digits (ExpandMath.cpp). Operator by operator
/// a known value would lose them.
Value expm1(NodeImport &n, Value x) {
  if (Value known = ofKnown(n, x, [](double v) { return std::expm1(v); }))
    return known;
  return n.e.binary<nn::SubOp>(n.e.emit<nn::ExpOp>(x), n.e.scalarLike(x, 1));
}
Value log1p(NodeImport &n, Value x) {
  if (Value known = ofKnown(n, x, [](double v) { return std::log1p(v); }))
    return known;
  return n.e.emit<nn::LogOp>(n.e.binary<nn::AddOp>(x, n.e.scalarLike(x, 1)));
}

/// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|): no overflow. -|x| is min(-x, x), whose gradient at 0 goes with
/// that of max.
Value softplus(NodeImport &n, Value x) {
  Value magnitude = n.e.emit<nn::ExpOp>(n.e.binary<nn::MinOp>(n.e.emit<nn::NegOp>(x), x));
  Value positive = n.e.binary<nn::MaxOp>(x, n.e.scalarLike(x, 0));
  return n.e.binary<nn::AddOp>(positive, log1p(n, magnitude));
}
void softplus(NodeImport &n) { n.out(softplus(n, n.in(0))); }
void mish(NodeImport &n) {
  n.out(n.e.binary<nn::MulOp>(n.in(0), n.e.emit<nn::TanhOp>(softplus(n, n.in(0)))));
}
void swish(NodeImport &n) {
  Value x = n.in(0), scaled = n.e.binary<nn::MulOp>(x, n.e.scalarLike(x, n.floatAttr("alpha", 1)));
  n.out(n.floatAttr("alpha", 1) == 1 ? n.e.emit<nn::SiluOp>(x)
                                     : n.e.binary<nn::MulOp>(x, n.e.emit<nn::SigmoidOp>(scaled)));
}

Value positive(NodeImport &n, Value x) { return n.e.compare(x, n.e.scalarLike(x, 0), "gt"); }
void leakyRelu(NodeImport &n) {
  Value x = n.in(0), scaled = n.e.binary<nn::MulOp>(x, n.e.scalarLike(x, n.floatAttr("alpha", 0.01f)));
  n.out(n.e.emit<nn::SelectOp>({positive(n, x), x, scaled}));
}
void prelu(NodeImport &n) {
  n.out(n.e.emit<nn::SelectOp>({positive(n, n.in(0)), n.in(0), n.e.binary<nn::MulOp>(n.in(0), n.in(1))}));
}
/// scale (x where positive, alpha (e^x - 1) elsewhere); the exponent is kept from overflowing where it is not
/// chosen.
Value elu(NodeImport &n, Value x, double alpha, double scale) {
  Value low = expm1(n, n.e.binary<nn::MinOp>(x, n.e.scalarLike(x, 0)));
  Value negative = n.e.binary<nn::MulOp>(low, n.e.scalarLike(x, alpha));
  Value result = n.e.emit<nn::SelectOp>({positive(n, x), x, negative});
  return scale == 1 ? result : n.e.binary<nn::MulOp>(result, n.e.scalarLike(x, scale));
}
void elu(NodeImport &n) { n.out(elu(n, n.in(0), n.floatAttr("alpha", 1), 1)); }
void selu(NodeImport &n) {
  n.out(elu(n, n.in(0), n.floatAttr("alpha", 1.67326319217681884765625),
            n.floatAttr("gamma", 1.05070102214813232421875)));
}
void softsign(NodeImport &n) {
  Value x = n.in(0);
  n.out(n.e.binary<nn::DivOp>(x, n.e.binary<nn::AddOp>(n.e.emit<nn::AbsOp>(x), n.e.scalarLike(x, 1))));
}
void ceil(NodeImport &n) { n.out(n.e.emit<nn::NegOp>(n.e.emit<nn::FloorOp>(n.e.emit<nn::NegOp>(n.in(0))))); }
void sign(NodeImport &n) {
  Value x = n.in(0), zero = n.e.scalarLike(x, 0);
  Type type = elementOf(x);
  Value result = n.e.binary<nn::SubOp>(n.e.cast(n.e.compare(x, zero, "gt"), type),
                                       n.e.cast(n.e.compare(x, zero, "lt"), type));
  n.out(isa<FloatType>(type) ? n.e.emit<nn::SelectOp>({n.e.emit<nn::IsNanOp>(x), x, result}) : result);
}

/// To the nearest integer, halves to the even one.
void round(NodeImport &n) {
  Value x = n.in(0), down = n.e.emit<nn::FloorOp>(x), rest = n.e.binary<nn::SubOp>(x, down);
  Value up = n.e.binary<nn::AddOp>(down, n.e.scalarLike(x, 1));
  Value half = n.e.scalarLike(x, 0.5), halved = n.e.binary<nn::MulOp>(down, half);
  Value odd = n.e.compare(n.e.emit<nn::FloorOp>(halved), halved, "ne");
  Value above = n.e.binary<nn::OrOp>(n.e.compare(rest, half, "gt"),
                                     n.e.binary<nn::AndOp>(n.e.compare(rest, half, "eq"), odd));
  Value result = n.e.emit<nn::SelectOp>({above, up, down});
  Value zero = n.e.scalarLike(x, 0), isZero = n.e.compare(result, zero, "eq"); // a zero has the sign of x
  n.out(n.e.emit<nn::SelectOp>({isZero, n.e.binary<nn::MulOp>(x, zero), result}));
}
void isInf(NodeImport &n) {
  Value x = n.in(0), none = n.e.compare(x, x, "lt");
  double infinity = std::numeric_limits<double>::infinity();
  Value high = n.intAttr("detect_positive", 1) ? n.e.compare(x, n.e.scalarLike(x, infinity), "eq") : none;
  Value low = n.intAttr("detect_negative", 1) ? n.e.compare(x, n.e.scalarLike(x, -infinity), "eq") : none;
  n.out(n.e.binary<nn::OrOp>(high, low));
}
void thresholdedRelu(NodeImport &n) {
  Value x = n.in(0), chosen = n.e.compare(x, n.e.scalarLike(x, n.floatAttr("alpha", 1)), "gt");
  n.out(n.e.emit<nn::SelectOp>({chosen, x, n.e.scalarLike(x, 0)}));
}
/// x where positive, alpha (e^(x/alpha) - 1) elsewhere.
void celu(NodeImport &n) {
  Value x = n.in(0);
  double alpha = n.floatAttr("alpha", 1);
  Value scaled =
      n.e.binary<nn::MulOp>(n.e.binary<nn::MinOp>(x, n.e.scalarLike(x, 0)), n.e.scalarLike(x, 1 / alpha));
  Value low = n.e.binary<nn::MulOp>(expm1(n, scaled), n.e.scalarLike(x, alpha));
  n.out(n.e.emit<nn::SelectOp>({positive(n, x), x, low}));
}
void shrink(NodeImport &n) {
  Value x = n.in(0), zero = n.e.scalarLike(x, 0);
  double lambda = n.floatAttr("lambd", 0.5), bias = n.floatAttr("bias", 0);
  Value low = n.e.binary<nn::AddOp>(x, n.e.scalarLike(x, bias)),
        high = n.e.binary<nn::SubOp>(x, n.e.scalarLike(x, bias));
  Value upper = n.e.emit<nn::SelectOp>({n.e.compare(x, n.e.scalarLike(x, lambda), "gt"), high, zero});
  n.out(n.e.emit<nn::SelectOp>({n.e.compare(x, n.e.scalarLike(x, -lambda), "lt"), low, upper}));
}

} // namespace

void addElementwiseHandlers(HandlerRegistry &r) {
  r.add("Add", binary<nn::AddOp>);
  r.add("Sub", binary<nn::SubOp>);
  r.add("Mul", binary<nn::MulOp>);
  r.add("Div", binary<nn::DivOp>);
  r.add("And", binary<nn::AndOp>);
  r.add("Or", binary<nn::OrOp>);
  r.add("Xor", binary<nn::XorOp>);
  r.add("BitwiseAnd", binary<nn::AndOp>);
  r.add("BitwiseOr", binary<nn::OrOp>);
  r.add("BitwiseXor", binary<nn::XorOp>);
  r.add("Min", variadic<nn::MinOp>);
  r.add("Max", variadic<nn::MaxOp>);
  r.add("Sum", variadic<nn::AddOp>);
  r.add("Neg", unary<nn::NegOp>);
  r.add("Abs", unary<nn::AbsOp>);
  r.add("Exp", unary<nn::ExpOp>);
  r.add("Log", unary<nn::LogOp>);
  r.add("Sqrt", unary<nn::SqrtOp>);
  r.add("Reciprocal", unary<nn::ReciprocalOp>);
  r.add("Tanh", unary<nn::TanhOp>);
  r.add("Sigmoid", unary<nn::SigmoidOp>);
  r.add("Relu", unary<nn::ReluOp>);
  r.add("Erf", unary<nn::ErfOp>);
  r.add("Sin", unary<nn::SinOp>);
  r.add("Cos", unary<nn::CosOp>);
  r.add("Atan", unary<nn::AtanOp>);
  r.add("Floor", unary<nn::FloorOp>);
  r.add("Ceil", ceil);
  r.add("Sign", sign);
  r.add("Not", unary<nn::NotOp>);
  r.add("IsNaN", unary<nn::IsNanOp>);
  r.add("Equal", compare<0>);
  r.add("Less", compare<1>);
  r.add("LessOrEqual", compare<2>);
  r.add("Greater", compare<3>);
  r.add("GreaterOrEqual", compare<4>);
  r.add("Pow", pow);
  r.add("Mod", mod);
  r.add("Where", where);
  r.add("Identity", identity);
  r.add("Cast", cast);
  r.add("CastLike", castLike);
  r.add("Gelu", gelu);
  r.add("Clip", clip);
  r.add("HardSigmoid", hardSigmoid);
  r.add("HardSwish", hardSwish);
  r.add("Softplus", softplus);
  r.add("Softsign", softsign);
  r.add("Mish", mish);
  r.add("Swish", swish);
  r.add("LeakyRelu", leakyRelu);
  r.add("PRelu", prelu);
  r.add("Elu", elu);
  r.add("Selu", selu);
  r.add("Round", round);
  r.add("IsInf", isInf);
  r.add("ThresholdedRelu", thresholdedRelu);
  r.add("Celu", celu);
  r.add("Shrink", shrink);
}

} // namespace tessera
