// The emitter and the node at hand.
#include "lib/Import/Importer.h"
#include "dialects/nn/Attributes.h"
#include "dialects/nn/Size.h"
#include "lib/Import/Evaluate.h"
#include "lib/Import/ops/Families.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using llvm::Twine;

namespace tessera {

const HostTensor *Emitter::known(Value value) {
  auto found = knownValues.find(value);
  if (found == knownValues.end())
    return nullptr;
  KnownValue &entry = found->second;
  if (!entry.tensor) {
    if (entry.initializer->numElements() > maxHostElements)
      return nullptr;
    entry.tensor = decode(builder.getContext(), *entry.initializer).compressed();
  }
  return &*entry.tensor;
}

/// Sizes come from the file: products of them must not overflow in what follows.
static Type checked(Type type) {
  if (!nn::hasReasonableSize(type)) {
    std::string text;
    llvm::raw_string_ostream(text) << type;
    throw ImportError("a value of type " + text +
                      " has more elements than any machine can hold; is a dimension wrong?");
  }
  return type;
}

Value Emitter::constant(HostTensor tensor, llvm::StringRef name) {
  Type type = checked(RankedTensorType::get(tensor.shape, tensor.type));
  Value placeholder =
      UnrealizedConversionCastOp::create(builder, loc, TypeRange{type}, ValueRange{}).getResult(0);
  knownValues[placeholder] = {std::move(tensor), nullptr, name.str()};
  return placeholder;
}

Value Emitter::initializer(const OnnxTensor &tensor) {
  Type element = elementType(builder.getContext(), tensor.type);
  if (!element)
    throw ImportError("initializer '" + tensor.name + "' has the element type " +
                      Twine(static_cast<int>(tensor.type)) + ", which is not supported");
  Type type = RankedTensorType::get(tensor.dims, element);
  Value placeholder =
      UnrealizedConversionCastOp::create(builder, loc, TypeRange{type}, ValueRange{}).getResult(0);
  knownValues[placeholder] = {std::nullopt, &tensor, tensor.name};
  return placeholder;
}

Value Emitter::splat(Type elementType, double value, llvm::ArrayRef<int64_t> shape) {
  return constant(HostTensor::splat(elementType, shape, value));
}
Value Emitter::scalarLike(Value like, double value) { return splat(elementOf(like), value); }

Value Emitter::folded(Operation *op) {
  checked(op->getResult(0).getType());
  llvm::SmallVector<const HostTensor *> operands;
  for (Value operand : op->getOperands()) {
    const HostTensor *tensor = known(operand);
    if (!tensor)
      return op->getResult(0);
    operands.push_back(tensor);
  }
  std::optional<HostTensor> result = evaluate(op, operands);
  if (!result)
    return op->getResult(0);
  op->erase();
  return constant(std::move(*result));
}

static std::string text(llvm::ArrayRef<int64_t> shape) {
  std::string result = "[";
  for (auto [d, size] : llvm::enumerate(shape))
    result += (d ? ", " : "") + std::to_string(size);
  return result + "]";
}

Value Emitter::reshape(Value value, llvm::ArrayRef<int64_t> shape) {
  if (shapeOf(value) == shape)
    return value;
  if (product(shape) != typeOf(value).getNumElements())
    throw ImportError("cannot reshape " + text(shapeOf(value)) + " to " + text(shape));
  return emitAs<nn::ReshapeOp>(elementOf(value), shape, value);
}

Value Emitter::transpose(Value value, llvm::ArrayRef<int64_t> perm) {
  if (llvm::equal(perm, llvm::seq<int64_t>(0, perm.size())))
    return value;
  return emit<nn::TransposeOp>(value, builder.getNamedAttr("perm", builder.getDenseI64ArrayAttr(perm)));
}

Value Emitter::broadcastTo(Value value, llvm::ArrayRef<int64_t> shape) {
  llvm::ArrayRef<int64_t> from = shapeOf(value);
  if (from == shape)
    return value;
  int64_t missing = static_cast<int64_t>(shape.size()) - static_cast<int64_t>(from.size());
  Shape kept;
  llvm::SmallVector<int64_t> dims;
  for (int64_t d = 0; d < static_cast<int64_t>(from.size()); ++d) {
    if (missing < 0 || (from[d] != 1 && from[d] != shape[d + missing]))
      throw ImportError("cannot broadcast " + text(from) + " to " + text(shape));
    if (from[d] == shape[d + missing]) {
      kept.push_back(from[d]);
      dims.push_back(d + missing);
    }
  }
  value = reshape(value, kept);
  return emitAs<nn::BroadcastOp>(elementOf(value), shape, value,
                                 builder.getNamedAttr("dims", builder.getDenseI64ArrayAttr(dims)));
}

Value Emitter::slice(Value value, llvm::ArrayRef<int64_t> starts, llvm::ArrayRef<int64_t> sizes,
                     llvm::ArrayRef<int64_t> steps) {
  if (shapeOf(value) == sizes && llvm::all_of(steps, [](int64_t s) { return s == 1; }))
    return value;
  return emit<nn::SliceOp>(value, {builder.getNamedAttr("starts", builder.getDenseI64ArrayAttr(starts)),
                                   builder.getNamedAttr("sizes", builder.getDenseI64ArrayAttr(sizes)),
                                   builder.getNamedAttr("steps", builder.getDenseI64ArrayAttr(steps))});
}

Value Emitter::slice(Value value, int64_t dim, int64_t start, int64_t size) {
  Shape starts(rankOf(value), 0), sizes(shapeOf(value)), steps(rankOf(value), 1);
  starts[dim] = start;
  sizes[dim] = size;
  return slice(value, starts, sizes, steps);
}

Value Emitter::take(Value value, int64_t dim, llvm::ArrayRef<int64_t> indices) {
  constexpr size_t mostSlices = 64;
  llvm::SmallVector<Value> parts;
  for (size_t begin = 0, end; begin < indices.size() && parts.size() <= mostSlices; begin = end) {
    int64_t step = begin + 1 < indices.size() ? indices[begin + 1] - indices[begin] : 1;
    for (end = begin + 1; end < indices.size() && step > 0 && indices[end] - indices[end - 1] == step;)
      ++end;
    Shape starts(rankOf(value), 0), sizes(shapeOf(value)), steps(rankOf(value), 1);
    starts[dim] = indices[begin];
    sizes[dim] = end - begin;
    steps[dim] = end - begin > 1 ? step : 1;
    parts.push_back(slice(value, starts, sizes, steps));
  }
  if (parts.size() <= mostSlices)
    return parts.empty() ? slice(value, dim, 0, 0) : concat(parts, dim);
  auto perm = llvm::to_vector(llvm::seq<int64_t>(0, rankOf(value)));
  std::swap(perm[0], perm[dim]);
  Value ids = constant(HostTensor::ints(builder.getContext(), indices));
  return transpose(emit<nn::GatherOp>({transpose(value, perm), ids},
                                      builder.getNamedAttr("frozen_row", builder.getI64IntegerAttr(-1))),
                   perm);
}

Value Emitter::concat(ValueRange values, int64_t dim) {
  if (values.size() == 1)
    return values[0];
  return emit<nn::ConcatOp>(values, builder.getNamedAttr("dim", builder.getI64IntegerAttr(dim)));
}

Value Emitter::cast(Value value, Type elementType) {
  if (elementOf(value) == elementType)
    return value;
  return emit<nn::CastOp>(value, builder.getNamedAttr("to", TypeAttr::get(elementType)));
}

Value Emitter::compare(Value lhs, Value rhs, llvm::StringRef predicate) {
  return emit<nn::CompareOp>({lhs, rhs}, builder.getNamedAttr("predicate", builder.getStringAttr(predicate)));
}

Value Emitter::reduce(Value value, llvm::ArrayRef<int64_t> dims, llvm::StringRef kind, bool keep) {
  Shape kept(shapeOf(value));
  for (int64_t d : dims)
    kept[d] = 1;
  if (!dims.empty())
    value = emit<nn::ReduceOp>(value, {builder.getNamedAttr("dims", builder.getDenseI64ArrayAttr(dims)),
                                       builder.getNamedAttr("kind", builder.getStringAttr(kind))});
  return keep ? reshape(value, kept) : value;
}

Value Emitter::iota(Type elementType, llvm::ArrayRef<int64_t> shape, int64_t dim) {
  return emitAs<nn::IotaOp>(elementType, shape, {},
                            builder.getNamedAttr("dim", builder.getI64IntegerAttr(dim)));
}

Value Emitter::randomKey() {
  auto func = cast<func::FuncOp>(builder.getBlock()->getParentOp());
  unsigned count = func.getNumArguments();
  if (std::optional<unsigned> key = nn::findInput(func, nn::InputKind::Random))
    return func.getArgument(*key);
  auto attributes = builder.getDictionaryAttr(
      {nn::kName.with(builder.getStringAttr("random")),
       nn::kKind.with(nn::InputKindAttr::get(builder.getContext(), nn::InputKind::Random))});
  LogicalResult inserted = func.insertArgument(count, RankedTensorType::get({}, builder.getI64Type()),
                                               attributes, NameLoc::get(builder.getStringAttr("random")));
  if (failed(inserted))
    throw ImportError("no argument can be added for random numbers");
  return func.getArgument(count);
}

Value Emitter::contract(Value lhs, Value rhs, llvm::StringRef lhsLetters, llvm::StringRef rhsLetters,
                        llvm::StringRef outLetters) {
  return emit<nn::ContractOp>({lhs, rhs},
                              {builder.getNamedAttr("lhs_letters", builder.getStringAttr(lhsLetters)),
                               builder.getNamedAttr("rhs_letters", builder.getStringAttr(rhsLetters)),
                               builder.getNamedAttr("out_letters", builder.getStringAttr(outLetters))});
}

Value NodeImport::in(size_t i) const {
  if (!has(i))
    fail("input " + Twine(i) + " is missing");
  const GraphValue &value = values.at(node.inputs[i]);
  if (!value.tensor)
    fail("input " + Twine(i) + " is a sequence, a tensor is expected");
  return value.tensor;
}

const std::vector<Value> &NodeImport::sequence(size_t i) const {
  if (!has(i) || values.at(node.inputs[i]).tensor)
    fail("input " + Twine(i) + " is not a sequence");
  return values.at(node.inputs[i]).sequence;
}

std::vector<int64_t> NodeImport::ints(size_t i) const {
  const HostTensor *tensor = known(i);
  if (tensor && tensor->shape.size() > 1)
    fail("input " + Twine(i) + " ('" + node.inputs[i] + "') has " + Twine(tensor->shape.size()) +
         " dimensions, a list of integers has one");
  std::optional<std::vector<int64_t>> result = tensor ? tensor->asInts() : std::nullopt;
  if (!result)
    fail("input " + Twine(i) + " ('" + node.inputs[i] +
         "') must be known at compile time, here it depends on the data");
  return *result;
}

int64_t NodeImport::integer(size_t i) const {
  std::vector<int64_t> values = ints(i);
  if (values.size() != 1)
    fail("input " + Twine(i) + " has " + Twine(values.size()) + " elements, one is expected");
  return values[0];
}

void NodeImport::checkAllRead() const {
  for (const auto &[name, attribute] : node.attributes)
    if (!readAttributes.count(name))
      fail("attribute '" + name + "' is not one that the operator has, or it is not supported");
  for (size_t i = readInputs; i < node.inputs.size(); ++i)
    if (!node.inputs[i].empty())
      fail("input " + Twine(i) + " ('" + node.inputs[i] + "') is one too many: the operator takes " +
           Twine(readInputs) + ", or more are not supported");
}

const OnnxAttribute *NodeImport::attr(llvm::StringRef name) const {
  readAttributes.insert(name.str());
  auto found = node.attributes.find(name.str());
  return found == node.attributes.end() ? nullptr : &found->second;
}

const OnnxAttribute *NodeImport::attr(llvm::StringRef name, OnnxAttribute::Kind kind) const {
  const OnnxAttribute *attribute = attr(name);
  if (attribute && attribute->kind != kind)
    fail("attribute '" + name + "' has another type than ONNX defines");
  return attribute;
}

int64_t NodeImport::intAttr(llvm::StringRef name, int64_t standard) const {
  const OnnxAttribute *attribute = attr(name, OnnxAttribute::Kind::Int);
  return attribute ? attribute->i : standard;
}
double NodeImport::floatAttr(llvm::StringRef name, double standard) const {
  const OnnxAttribute *attribute = attr(name, OnnxAttribute::Kind::Float);
  return attribute ? attribute->f : standard;
}
std::string NodeImport::stringAttr(llvm::StringRef name, llvm::StringRef standard) const {
  const OnnxAttribute *attribute = attr(name, OnnxAttribute::Kind::String);
  return attribute ? attribute->s : standard.str();
}
std::vector<int64_t> NodeImport::intsAttr(llvm::StringRef name, const std::vector<int64_t> &standard) const {
  const OnnxAttribute *attribute = attr(name, OnnxAttribute::Kind::Ints);
  return attribute ? attribute->ints : standard;
}

int64_t NodeImport::axis(int64_t axis, int64_t rank) const {
  if (axis < -rank || axis >= rank)
    fail("axis " + Twine(axis) + " is outside a tensor of " + Twine(rank) + " dimensions");
  return axis < 0 ? axis + rank : axis;
}

std::vector<int64_t> NodeImport::axes(std::vector<int64_t> axes, int64_t rank) const {
  for (int64_t &a : axes)
    a = axis(a, rank);
  llvm::sort(axes);
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    fail("an axis is named twice");
  return axes;
}

void NodeImport::checkListed(int64_t count) const {
  if (count > maxHostElements)
    fail("this would need a list of " + Twine(count) + " positions at compile time, at most " +
         Twine(maxHostElements) + " are possible");
}

void NodeImport::out(Value value, size_t i) {
  if (i >= node.outputs.size() || node.outputs[i].empty())
    return;
  values[node.outputs[i]].tensor = value;
  auto found = e.knownValues.find(value);
  if (found != e.knownValues.end() && found->second.name.empty())
    found->second.name = node.outputs[i];
}

void NodeImport::outSequence(std::vector<Value> sequence) {
  values[node.outputs[0]].sequence = std::move(sequence);
}

Handler HandlerRegistry::find(const OnnxNode &node, int64_t opset) const {
  auto found = handlers.find({node.domain, node.opType});
  if (found == handlers.end())
    return nullptr;
  auto newer = found->second.upper_bound(opset);
  return newer == found->second.begin() ? nullptr : std::prev(newer)->second;
}

const HandlerRegistry &HandlerRegistry::get() {
  static const HandlerRegistry registry = [] {
    HandlerRegistry r;
    addElementwiseHandlers(r);
    addConstantHandlers(r);
    addShapeHandlers(r);
    addIndexHandlers(r);
    addReduceHandlers(r);
    addProductHandlers(r);
    addNormalizationHandlers(r);
    addAttentionHandlers(r);
    addConvHandlers(r);
    addScatterHandlers(r);
    addPoolHandlers(r);
    addResizeHandlers(r);
    addExpertHandlers(r);
    addLossHandlers(r);
    addRandomHandlers(r);
    return r;
  }();
  return registry;
}

} // namespace tessera
