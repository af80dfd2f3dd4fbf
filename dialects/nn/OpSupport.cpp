#include "dialects/nn/OpSupport.h"
#include "dialects/nn/ByNumber.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace tessera::nn;

RankedTensorType tessera::nn::plainType(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return RankedTensorType::get(tensor.getShape(), tensor.getElementType());
}

Type tessera::nn::elementOf(Value value) { return cast<ShapedType>(value.getType()).getElementType(); }

ArrayRef<int64_t> tessera::nn::shapeOf(Value value) { return cast<ShapedType>(value.getType()).getShape(); }

std::string tessera::nn::shapeText(ArrayRef<int64_t> shape) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "[";
  llvm::interleaveComma(shape, os);
  os << "]";
  return text;
}

LogicalResult tessera::nn::inferError(std::optional<Location> location, const Twine &message) {
  if (location)
    emitError(*location) << message;
  return failure();
}

bool tessera::nn::sameShapesAndElements(TypeRange a, TypeRange b) {
  return a.size() == b.size() && llvm::all_of(llvm::zip(a, b), [](auto pair) {
           auto [x, y] = pair;
           auto s = dyn_cast<ShapedType>(x), t = dyn_cast<ShapedType>(y);
           return s && t ? s.getShape() == t.getShape() && s.getElementType() == t.getElementType() : x == y;
         });
}

bool tessera::nn::sameOrWider(TypeRange inferred, TypeRange actual) {
  SmallVector<Type> expected(inferred);
  for (size_t i = 0; i < std::min(expected.size(), actual.size()); ++i)
    if (auto to = dyn_cast<RankedTensorType>(actual[i]))
      if (auto type = dyn_cast<RankedTensorType>(expected[i]); type && isHalf(type.getElementType()))
        if (to.getElementType().isF32())
          expected[i] = type.clone(to.getElementType());
  return sameShapesAndElements(expected, actual);
}

Type tessera::nn::wideOf(Type element) {
  return isHalf(element) ? Float32Type::get(element.getContext()) : element;
}

Value tessera::nn::castTo(OpBuilder &builder, Location loc, Value value, Type element) {
  return elementOf(value) == element ? value : Value(CastOp::create(builder, loc, value, element));
}

std::string tessera::nn::freshLetters(size_t count, StringRef avoid) {
  std::string letters;
  for (char c = 'a'; letters.size() < count; c = c == 'z' ? 'A' : char(c + 1))
    if (!avoid.contains(c))
      letters.push_back(c);
  return letters;
}

FactorRule tessera::nn::lettersRule(Operation *op, ArrayRef<std::string> operands,
                                    ArrayRef<std::string> results, StringRef cooperative, StringRef unsplit,
                                    std::optional<StringRef> ordered) {
  return FactorRule::fromLetters(operands, results, op->getOperandTypes(), op->getResultTypes(), cooperative,
                                 unsplit, ordered);
}

Value tessera::nn::splatConstant(OpBuilder &builder, Location loc, RankedTensorType type, double value) {
  Type element = type.getElementType();
  Attribute attr = isa<FloatType>(element) ? Attribute(builder.getFloatAttr(element, value))
                                           : Attribute(builder.getIntegerAttr(element, int64_t(value)));
  return ConstantOp::create(builder, loc, type, DenseElementsAttr::get(type, attr));
}

Value tessera::nn::scalarConstant(OpBuilder &builder, Location loc, Type element, double value) {
  return splatConstant(builder, loc, RankedTensorType::get({}, element), value);
}

Value tessera::nn::scaled(OpBuilder &builder, Location loc, Value value, double factor) {
  return MulOp::create(builder, loc, value, scalarConstant(builder, loc, elementOf(value), factor));
}

Value tessera::nn::sumOver(OpBuilder &builder, Location loc, Value value, ArrayRef<int64_t> dims, bool keep) {
  Value sum = ReduceOp::create(builder, loc, value, dims, "sum");
  if (!keep)
    return sum;
  SmallVector<int64_t> shape(shapeOf(value));
  for (int64_t d : dims)
    shape[d] = 1;
  return ReshapeOp::create(builder, loc, RankedTensorType::get(shape, elementOf(value)), sum);
}

Value tessera::nn::sumToShape(OpBuilder &builder, Location loc, Value value, RankedTensorType type) {
  ArrayRef<int64_t> from = shapeOf(value), to = type.getShape();
  if (from == to)
    return value;
  SmallVector<int64_t> dims;
  int64_t extra = from.size() - to.size();
  for (int64_t d = 0; d < int64_t(from.size()); ++d)
    if (d < extra || (to[d - extra] == 1 && from[d] != 1))
      dims.push_back(d);
  if (!dims.empty())
    value = sumOver(builder, loc, value, dims);
  if (shapeOf(value) == to)
    return value;
  return ReshapeOp::create(builder, loc, plainType(type), value);
}

Value tessera::nn::withTrailingOne(OpBuilder &builder, Location loc, Value value) {
  SmallVector<int64_t> shape(shapeOf(value));
  shape.push_back(1);
  return ReshapeOp::create(builder, loc, RankedTensorType::get(shape, elementOf(value)), value);
}

bool tessera::nn::isByNumber(FactorOpInterface op, const FactorRule &rule, int factor) {
  auto has = [&](const DimFactors &dims) { return llvm::is_contained(dims, factor); };
  if (rule.factors[factor].kind == FactorKind::Reduction)
    return llvm::none_of(llvm::seq<unsigned>(rule.operands.size()),
                         [&](unsigned i) { return has(rule.operands[i]) && op.getNeutral(i, factor); });
  bool isSum = llvm::any_of(rule.factors, [](const Factor &f) { return f.kind == FactorKind::Reduction; });
  return isSum && llvm::none_of(rule.operands, has);
}

double tessera::nn::lowest(Type type) {
  if (isa<FloatType>(type))
    return -std::numeric_limits<double>::infinity();
  unsigned bits = type.getIntOrFloatBitWidth();
  return bits == 1 || type.isUnsignedInteger() ? 0 : -std::ldexp(1.0, bits - 1);
}

SmallVector<Value> tessera::nn::allReduceTogether(LocalBuilder &builder, ArrayRef<Value> values, int factor) {
  if (!builder.isSplit(factor))
    return SmallVector<Value>(values);
  Location loc = builder.loc();
  RankedTensorType type = plainType(values[0]);
  if (values.size() == 1)
    return {builder.allReduce(values[0], factor, "sum")};
  SmallVector<int64_t> shape = {1};
  llvm::append_range(shape, type.getShape());
  SmallVector<Value> rows;
  for (Value value : values)
    rows.push_back(
        ReshapeOp::create(builder, loc, RankedTensorType::get(shape, type.getElementType()), value));
  Value sums = builder.allReduce(ConcatOp::create(builder, loc, rows, 0), factor, "sum");
  SmallVector<int64_t> starts(shape.size(), 0), steps(shape.size(), 1);
  SmallVector<Value> results;
  for (size_t i = 0; i < values.size(); ++i) {
    starts[0] = i;
    results.push_back(
        ReshapeOp::create(builder, loc, type, SliceOp::create(builder, loc, sums, starts, shape, steps)));
  }
  return results;
}

Value tessera::nn::trimmedTo(OpBuilder &builder, Location loc, Value value, ArrayRef<int64_t> shape) {
  if (shapeOf(value) == shape)
    return value;
  SmallVector<int64_t> starts(shape.size(), 0), steps(shape.size(), 1);
  return SliceOp::create(builder, loc, value, starts, shape, steps);
}

Value tessera::nn::paddedTo(OpBuilder &builder, Location loc, Value value, ArrayRef<int64_t> shape) {
  if (shapeOf(value) == shape)
    return value;
  SmallVector<int64_t> zeros(shape.size(), 0), high;
  for (auto [to, from] : llvm::zip(shape, shapeOf(value)))
    high.push_back(to - from);
  return PadOp::create(builder, loc, value, zeros, high, zeros);
}

LogicalResult tessera::nn::expandTrimmed(FactorOpInterface op, LocalBuilder &builder, ValueRange operands,
                                         SmallVectorImpl<Value> &results,
                                         function_ref<void(ValueRange, NamedAttrList &)> adjust) {
  FactorRule rule = op.getFactorRule();
  // Along whole dimensions the logical sizes, of the global types; along the others the local ones.
  auto logical = [&](ArrayRef<int64_t> local, ArrayRef<int64_t> global, ArrayRef<int> factors) {
    SmallVector<int64_t> shape(local);
    for (auto [d, f] : llvm::enumerate(factors))
      if (f >= 0 && rule.factors[f].kind == FactorKind::Unsplit)
        shape[d] = global[d];
    return shape;
  };
  OperationState state(builder.loc(), op->getName());
  for (auto [i, operand] : llvm::enumerate(operands))
    state.operands.push_back(
        trimmedTo(builder, builder.loc(), operand,
                  logical(shapeOf(operand), shapeOf(op->getOperand(i)), rule.operands[i])));
  for (unsigned r = 0; r < op->getNumResults(); ++r) {
    RankedTensorType local = builder.resultType(r);
    state.addTypes(RankedTensorType::get(
        logical(local.getShape(), shapeOf(op->getResult(r)), rule.results[r]), local.getElementType()));
  }
  state.addAttributes(op->getAttrs());
  if (adjust)
    adjust(state.operands, state.attributes);
  Operation *local = builder.create(state);
  for (unsigned r = 0; r < op->getNumResults(); ++r)
    results.push_back(
        paddedTo(builder, builder.loc(), local->getResult(r), builder.resultType(r).getShape()));
  return success();
}
