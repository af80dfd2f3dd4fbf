// See ScalarFunction.h: a table of arith's and math's operators on scalars.
#include "lib/Import/ScalarFunction.h"
#include "dialects/nn/Formula.h"
#include "lib/Import/HostTensor.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringMap.h"
#include <cmath>

using namespace mlir;

namespace tessera {
namespace {

using Operands = const Scalar *;
using Compute = Scalar (*)(Operands, const Type &, const Type &);

Scalar real(double value) { return {.f = value}; }

/// An integer as values hold it: with its sign, a bool as 0 or 1.
Scalar integer(const Type &type, uint64_t value) {
  return {.i = type.isInteger(1) ? int64_t(value & 1) : wrapTo(type, int64_t(value))};
}

/// The same bits read without a sign.
uint64_t natural(const Type &type, Scalar value) {
  unsigned width = type.getIntOrFloatBitWidth();
  return width >= 64 ? uint64_t(value.i) : uint64_t(value.i) & ((uint64_t(1) << width) - 1);
}

/// IEEE's maximum: NaN where one is, and 0 is larger than -0.
double maximum(double x, double y) {
  if (std::isnan(x) || std::isnan(y))
    return NAN;
  return x == y ? (std::signbit(x) ? y : x) : std::max(x, y);
}

/// Base to the exponent, as math.ipowi has it; a negative exponent's is truncated.
uint64_t power(int64_t base, int64_t exponent) {
  if (exponent < 0)
    return base == 1 ? 1 : base == -1 ? uint64_t(exponent % 2 ? -1 : 1) : 0;
  uint64_t product = 1, square = uint64_t(base);
  for (; exponent; exponent >>= 1, square *= square)
    product *= exponent & 1 ? square : 1;
  return product;
}

#define REAL(expression) [](Operands v, const Type &, const Type &) { return real(expression); }
#define INTEGER(expression) [](Operands v, const Type &, const Type &to) { return integer(to, expression); }
#define UNSIGNED(expression)                                                                                 \
  [](Operands v, const Type &from, const Type &to) {                                                         \
    uint64_t x = natural(from, v[0]), y = natural(from, v[1]);                                               \
    return integer(to, expression);                                                                          \
  }

// The formulas divide by no 0, and convert what an integer can hold.
const llvm::StringMap<Compute> &computations() {
  static const llvm::StringMap<Compute> byName = {{"arith.addf", REAL(v[0].f + v[1].f)},
                                                  {"arith.subf", REAL(v[0].f - v[1].f)},
                                                  {"arith.mulf", REAL(v[0].f * v[1].f)},
                                                  {"arith.divf", REAL(v[0].f / v[1].f)},
                                                  {"arith.remf", REAL(std::fmod(v[0].f, v[1].f))},
                                                  {"arith.negf", REAL(-v[0].f)},
                                                  {"arith.maximumf", REAL(maximum(v[0].f, v[1].f))},
                                                  {"arith.minimumf", REAL(-maximum(-v[0].f, -v[1].f))},
                                                  {"math.absf", REAL(std::abs(v[0].f))},
                                                  {"math.exp", REAL(std::exp(v[0].f))},
                                                  {"math.log", REAL(std::log(v[0].f))},
                                                  {"math.sqrt", REAL(std::sqrt(v[0].f))},
                                                  {"math.tanh", REAL(std::tanh(v[0].f))},
                                                  {"math.erf", REAL(std::erf(v[0].f))},
                                                  {"math.sin", REAL(std::sin(v[0].f))},
                                                  {"math.cos", REAL(std::cos(v[0].f))},
                                                  {"math.tan", REAL(std::tan(v[0].f))},
                                                  {"math.asin", REAL(std::asin(v[0].f))},
                                                  {"math.acos", REAL(std::acos(v[0].f))},
                                                  {"math.atan", REAL(std::atan(v[0].f))},
                                                  {"math.sinh", REAL(std::sinh(v[0].f))},
                                                  {"math.cosh", REAL(std::cosh(v[0].f))},
                                                  {"math.floor", REAL(std::floor(v[0].f))},
                                                  {"math.powf", REAL(std::pow(v[0].f, v[1].f))},
                                                  {"arith.addi",
                                                   INTEGER(uint64_t(v[0].i) + uint64_t(v[1].i))},
                                                  {"arith.subi",
                                                   INTEGER(uint64_t(v[0].i) - uint64_t(v[1].i))},
                                                  {"arith.muli",
                                                   INTEGER(uint64_t(v[0].i) * uint64_t(v[1].i))},
                                                  {"arith.divsi", INTEGER(uint64_t(v[0].i / v[1].i))},
                                                  {"arith.remsi", INTEGER(uint64_t(v[0].i % v[1].i))},
                                                  {"arith.divui", UNSIGNED(x / y)},
                                                  {"arith.remui", UNSIGNED(x % y)},
                                                  {"arith.andi", INTEGER(uint64_t(v[0].i & v[1].i))},
                                                  {"arith.ori", INTEGER(uint64_t(v[0].i | v[1].i))},
                                                  {"arith.xori", INTEGER(uint64_t(v[0].i ^ v[1].i))},
                                                  {"arith.trunci", INTEGER(uint64_t(v[0].i))},
                                                  {"arith.extsi", INTEGER(uint64_t(v[0].i))},
                                                  {"arith.extui",
                                                   [](Operands v, const Type &from, const Type &to) {
                                                     return integer(to, natural(from, v[0]));
                                                   }},
                                                  {"math.absi", INTEGER(v[0].i < 0 ? 0 - uint64_t(v[0].i)
                                                                                   : uint64_t(v[0].i))},
                                                  {"math.ipowi", INTEGER(power(v[0].i, v[1].i))},
                                                  {"arith.fptosi", INTEGER(uint64_t(int64_t(v[0].f)))},
                                                  {"arith.fptoui", INTEGER(uint64_t(v[0].f))},
                                                  {"arith.sitofp",
                                                   [](Operands v, const Type &, const Type &to) {
                                                     return real(to.isF32() ? double(float(v[0].i))
                                                                            : roundTo(to, double(v[0].i)));
                                                   }},
                                                  {"arith.uitofp",
                                                   [](Operands v, const Type &from, const Type &to) {
                                                     uint64_t x = natural(from, v[0]);
                                                     return real(to.isF32() ? double(float(x))
                                                                            : roundTo(to, double(x)));
                                                   }},
                                                  {"arith.extf", REAL(v[0].f)},
                                                  {"arith.truncf",
                                                   [](Operands v, const Type &, const Type &to) {
                                                     return real(roundTo(to, v[0].f));
                                                   }},
                                                  {"arith.select",
                                                   [](Operands v, const Type &, const Type &) {
                                                     return v[0].i ? v[1] : v[2];
                                                   }}};
  return byName;
}

Compute comparison(arith::CmpFPredicate predicate) {
  switch (predicate) {
  case arith::CmpFPredicate::OEQ:
    return INTEGER(v[0].f == v[1].f);
  case arith::CmpFPredicate::UNE:
    return INTEGER(v[0].f != v[1].f);
  case arith::CmpFPredicate::OLT:
    return INTEGER(v[0].f < v[1].f);
  case arith::CmpFPredicate::OLE:
    return INTEGER(v[0].f <= v[1].f);
  case arith::CmpFPredicate::OGT:
    return INTEGER(v[0].f > v[1].f);
  case arith::CmpFPredicate::OGE:
    return INTEGER(v[0].f >= v[1].f);
  default:
    return nullptr;
  }
}

Compute comparison(arith::CmpIPredicate predicate) {
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return INTEGER(v[0].i == v[1].i);
  case arith::CmpIPredicate::ne:
    return INTEGER(v[0].i != v[1].i);
  case arith::CmpIPredicate::slt:
    return INTEGER(v[0].i < v[1].i);
  case arith::CmpIPredicate::sle:
    return INTEGER(v[0].i <= v[1].i);
  case arith::CmpIPredicate::sgt:
    return INTEGER(v[0].i > v[1].i);
  case arith::CmpIPredicate::sge:
    return INTEGER(v[0].i >= v[1].i);
  case arith::CmpIPredicate::ult:
    return UNSIGNED(x < y);
  case arith::CmpIPredicate::ule:
    return UNSIGNED(x <= y);
  case arith::CmpIPredicate::ugt:
    return UNSIGNED(x > y);
  case arith::CmpIPredicate::uge:
    return UNSIGNED(x >= y);
  }
  return nullptr;
}

Compute computationOf(Operation &op) {
  if (auto compare = dyn_cast<arith::CmpFOp>(op))
    return comparison(compare.getPredicate());
  if (auto compare = dyn_cast<arith::CmpIOp>(op))
    return comparison(compare.getPredicate());
  return computations().lookup(op.getName().getStringRef());
}

} // namespace

bool ScalarFunction::add(Operation &op) {
  int number = int(values.size());
  numbers[op.getResult(0)] = number;
  values.emplace_back();
  if (failed(verify(&op)))
    return false;
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (auto number = dyn_cast<FloatAttr>(constant.getValue()))
      values.back() = real(number.getValueAsDouble());
    else
      values.back() = integer(op.getResult(0).getType(),
                              cast<IntegerAttr>(constant.getValue()).getValue().getZExtValue());
    return true;
  }
  Step step{computationOf(op), number, {}, op.getOperand(0).getType(), op.getResult(0).getType()};
  if (!step.compute || op.getNumOperands() > 3)
    return false;
  for (auto [i, operand] : llvm::enumerate(op.getOperands()))
    step.operands[i] = numbers.lookup(operand);
  steps.push_back(step);
  return true;
}

std::optional<ScalarFunction> ScalarFunction::of(Operation *op) {
  MLIRContext *context = op->getContext();
  context->loadDialect<arith::ArithDialect, math::MathDialect>();
  ScalarFunction function;
  OpBuilder b(context);
  Block body;
  for (Value operand : op->getOperands()) {
    auto tensor = dyn_cast<RankedTensorType>(operand.getType());
    if (!tensor)
      return std::nullopt;
    Type type = tensor.getElementType();
    type = isa<FloatType>(type) ? b.getF64Type() : Type(b.getIntegerType(type.getIntOrFloatBitWidth()));
    function.types.push_back(type);
    BlockArgument argument = body.addArgument(type, op->getLoc());
    function.numbers[argument] = int(function.values.size());
    function.values.emplace_back();
  }
  b.setInsertionPointToStart(&body);
  Value value = nn::scalarFormula(op, b, body.getArguments());
  if (!value)
    return std::nullopt;
  for (Operation &step : body)
    if (!function.add(step))
      return std::nullopt;
  function.result = function.numbers.lookup(value);
  function.numbers.clear();
  return function;
}

Scalar ScalarFunction::operator()(llvm::ArrayRef<Scalar> arguments) {
  for (auto [value, argument, type] : llvm::zip_first(arguments, values, types))
    argument = isa<FloatType>(type) ? value : integer(type, uint64_t(value.i));
  for (const Step &step : steps) {
    Scalar operands[3];
    for (size_t i = 0; i < std::size(operands); ++i)
      operands[i] = values[step.operands[i]];
    values[step.result] = step.compute(operands, step.from, step.to);
  }
  return values[result];
}

} // namespace tessera
