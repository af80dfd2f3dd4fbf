// Turns values known at import into operators: small constants, compact forms of large ones, buffers for the
// rest.
#include "lib/Import/Importer.h"

using namespace mlir;

namespace tessera {
namespace {

constexpr int64_t maxConstantBytes = 1024; // as nn.constant's verifier

DenseElementsAttr attributeOf(const HostTensor &tensor, RankedTensorType type) {
  HostTensor source = tensor.storedSize() == 1 ? tensor : tensor.dense();
  if (auto floating = dyn_cast<FloatType>(tensor.type)) {
    llvm::SmallVector<llvm::APFloat> values;
    for (double value : source.f) {
      llvm::APFloat converted(value);
      bool inexact;
      converted.convert(floating.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &inexact);
      values.push_back(converted);
    }
    return DenseElementsAttr::get(type, values);
  }
  llvm::SmallVector<llvm::APInt> values;
  for (int64_t value : source.i)
    values.push_back(llvm::APInt(tensor.type.getIntOrFloatBitWidth(), value, true, true));
  return DenseElementsAttr::get(type, values);
}

class Materializer {
public:
  Materializer(Emitter &emitter, ModuleOp module, WeightStore &weights)
      : e(emitter), module(module), weights(weights) {}

  Value materialize(Value placeholder) {
    KnownValue &entry = e.knownValues[placeholder];
    const HostTensor *known = e.known(placeholder);
    auto type = cast<RankedTensorType>(placeholder.getType());
    if (!known) // too large to look into
      return buffer(entry.name, type, entry.initializer->bytes, entry.initializer->absentFile.empty());
    HostTensor tensor = known->compressed();
    if (tensor.storedSize() == 1 || tensor.size() == 0)
      return small(tensor, type);
    // Without the repeated dimensions, which a broadcast gives back.
    HostTensor core = tensor;
    core.shape = core.stored;
    Value value = compact(core);
    if (!value) {
      Bytes bytes;
      if (entry.initializer && core.shape == tensor.shape)
        bytes = entry.initializer->bytes;
      value = unstructured(core, entry.name, bytes);
    }
    return broadcast(value, type);
  }

private:
  template <typename OpTy, typename... Args>
  Value make(Type element, llvm::ArrayRef<int64_t> shape, ValueRange operands, Args... attributes) {
    return OpTy::create(e.builder, e.loc, TypeRange{RankedTensorType::get(shape, element)}, operands,
                        llvm::ArrayRef<NamedAttribute>{attributes...});
  }

  Value small(const HostTensor &tensor, RankedTensorType type) {
    return nn::ConstantOp::create(e.builder, e.loc, TypeRange{type}, ValueRange{},
                                  e.builder.getNamedAttr("value", attributeOf(tensor, type)));
  }
  Value scalar(Type element, double value) {
    return small(HostTensor::splat(element, {}, value), RankedTensorType::get({}, element));
  }

  Value broadcast(Value value, RankedTensorType type) {
    Shape kept;
    llvm::SmallVector<int64_t> dims;
    for (int64_t d = 0; d < type.getRank(); ++d)
      if (shapeOf(value)[d] == type.getDimSize(d)) {
        kept.push_back(type.getDimSize(d));
        dims.push_back(d);
      }
    if (static_cast<int64_t>(dims.size()) == type.getRank())
      return value;
    value = make<nn::ReshapeOp>(type.getElementType(), kept, value);
    return make<nn::BroadcastOp>(type.getElementType(), type.getShape(), value,
                                 e.builder.getNamedAttr("dims", e.builder.getDenseI64ArrayAttr(dims)));
  }

  /// A ramp or a causal mask as operators, or null.
  Value compact(const HostTensor &core) {
    if (Value value = ramp(core))
      return value;
    return causal(core);
  }

  Value iota(Type element, llvm::ArrayRef<int64_t> shape, int64_t dim) {
    return make<nn::IotaOp>(element, shape, {},
                            e.builder.getNamedAttr("dim", e.builder.getI64IntegerAttr(dim)));
  }

  Value ramp(const HostTensor &core) {
    if (core.isFloat() || core.type.isInteger(1) || core.storedSize() < 8)
      return nullptr;
    int64_t dim = -1;
    for (size_t d = 0; d < core.shape.size(); ++d)
      if (core.shape[d] != 1) {
        if (dim != -1)
          return nullptr;
        dim = d;
      }
    int64_t start = core.i[0], step = core.i[1] - core.i[0];
    for (size_t k = 1; k < core.i.size(); ++k)
      if (core.i[k] - core.i[k - 1] != step)
        return nullptr;
    Value value = iota(core.type, core.shape, dim);
    if (step != 1)
      value = make<nn::MulOp>(core.type, core.shape, {value, scalar(core.type, step)});
    if (start != 0)
      value = make<nn::AddOp>(core.type, core.shape, {value, scalar(core.type, start)});
    return value;
  }

  /// [.., s, t], nothing before: one value where j <= i + offset, another elsewhere.
  Value causal(const HostTensor &core) {
    int64_t rank = core.shape.size();
    if (rank < 2 || core.shape[rank - 1] < 2 || core.shape[rank - 2] < 2 ||
        core.storedSize() != core.shape[rank - 1] * core.shape[rank - 2])
      return nullptr;
    int64_t rows = core.shape[rank - 2], columns = core.shape[rank - 1];
    double inside = core.number(0);
    int64_t offset = 0; // of row 0: the last column that is still inside
    while (offset + 1 < columns && core.number(offset + 1) == inside)
      ++offset;
    // Either triangle may come first; a row that is inside throughout says nothing about the other value.
    double outside = core.number(columns - 1);
    if (outside == inside || offset >= columns - 1)
      return nullptr;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        if (core.number(r * columns + c) != (c <= r + offset ? inside : outside))
          return nullptr;
    Type i64 = e.builder.getI64Type(), i1 = e.builder.getI1Type();
    Shape rowShape(rank, 1), columnShape(rank, 1);
    rowShape[rank - 2] = rows;
    columnShape[rank - 1] = columns;
    Value row = iota(i64, rowShape, rank - 2), column = iota(i64, columnShape, rank - 1);
    if (offset)
      row = make<nn::AddOp>(i64, rowShape, {row, scalar(i64, offset)});
    bool inverted = core.type.isInteger(1) && !inside;
    Value cmp = make<nn::CompareOp>(
        i1, core.shape, {column, row},
        e.builder.getNamedAttr("predicate", e.builder.getStringAttr(inverted ? "gt" : "le")));
    if (core.type.isInteger(1))
      return cmp;
    return make<nn::SelectOp>(core.type, core.shape,
                              {cmp, scalar(core.type, inside), scalar(core.type, outside)});
  }

  Value unstructured(const HostTensor &core, llvm::StringRef name, Bytes bytes) {
    auto type = RankedTensorType::get(core.shape, core.type);
    int64_t width = llvm::divideCeil(core.type.getIntOrFloatBitWidth(), 8);
    if (core.storedSize() * width <= maxConstantBytes)
      return small(core, type);
    if (!bytes.owner) {
      auto text = std::make_shared<std::string>(encode(core));
      bytes = {text, *text};
    }
    return buffer(name, type, bytes);
  }

  Value buffer(llvm::StringRef name, RankedTensorType type, const Bytes &bytes, bool isThere = true) {
    StringAttr symbol = addVariable(module, name.empty() ? "constant" : name, type, "buffer", e.loc);
    if (isThere)
      weights.add(symbol.str(), {type.getElementType(), type.getShape().vec(), bytes, false});
    return nn::ReadOp::create(e.builder, e.loc, TypeRange{type}, ValueRange{},
                              e.builder.getNamedAttr("variable", FlatSymbolRefAttr::get(symbol)));
  }

  Emitter &e;
  ModuleOp module;
  WeightStore &weights;
};

} // namespace

StringAttr addVariable(ModuleOp module, llvm::StringRef name, RankedTensorType type, llvm::StringRef role,
                       Location loc) {
  std::string unique = name.str();
  for (int k = 1; SymbolTable::lookupSymbolIn(module, unique); ++k)
    unique = name.str() + "." + std::to_string(k);
  OpBuilder builder(module.getContext());
  // Before the first function, after the variables so far.
  Block *body = module.getBody();
  auto position = llvm::find_if(*body, [](Operation &op) { return !isa<nn::VariableOp>(op); });
  builder.setInsertionPoint(body, position);
  nn::VariableOp::create(builder, loc, TypeRange{}, ValueRange{},
                         {builder.getNamedAttr("sym_name", builder.getStringAttr(unique)),
                          builder.getNamedAttr("type", TypeAttr::get(type)),
                          builder.getNamedAttr("role", builder.getStringAttr(role))});
  return builder.getStringAttr(unique);
}

void materializeKnownValues(Emitter &emitter, ModuleOp module, WeightStore &weights) {
  Materializer materializer(emitter, module, weights);
  llvm::SmallVector<UnrealizedConversionCastOp> placeholders;
  module.walk([&](UnrealizedConversionCastOp op) { placeholders.push_back(op); });
  for (UnrealizedConversionCastOp op : placeholders) {
    if (!op.use_empty()) {
      emitter.builder.setInsertionPoint(op);
      emitter.loc = op.getLoc();
      op.getResult(0).replaceAllUsesWith(materializer.materialize(op.getResult(0)));
    }
    emitter.knownValues.erase(op.getResult(0));
    op.erase();
  }
}

} // namespace tessera
