#include "passes/Assign/AnnotatedTensors.h"
#include "passes/Assign/Pattern.h"

using namespace mlir;
using namespace tessera;

AnnotatedTensor::AnnotatedTensor(DictionaryAttr attr)
    : kind(attr.getAs<StringAttr>("kind").getValue()), name(attr.getAs<StringAttr>("name").getValue()),
      position(attr.getAs<IntegerAttr>("position").getInt()),
      shape(attr.getAs<DenseI64ArrayAttr>("shape").asArrayRef()) {
  for (auto dim : attr.getAs<ArrayAttr>("split").getAsRange<ArrayAttr>()) {
    split.emplace_back();
    for (auto axis : dim.getAsRange<StringAttr>())
      split.back().push_back(axis.str());
  }
}

template <typename T> static bool areAll(Attribute attr, llvm::function_ref<bool(T)> valid) {
  auto array = dyn_cast_or_null<ArrayAttr>(attr);
  return array && llvm::all_of(array, [&](Attribute each) {
           auto typed = dyn_cast<T>(each);
           return typed && valid(typed);
         });
}
static bool isNames(ArrayAttr names) {
  return llvm::all_of(names, [](Attribute name) { return isa<StringAttr>(name); });
}
static bool isTensor(DictionaryAttr tensor) {
  auto shape = tensor.getAs<DenseI64ArrayAttr>("shape");
  auto split = tensor.getAs<ArrayAttr>("split");
  return tensor.getAs<StringAttr>("kind") && tensor.getAs<StringAttr>("name") &&
         tensor.getAs<IntegerAttr>("position") && shape && split && int64_t(split.size()) == shape.size() &&
         areAll<ArrayAttr>(split, isNames);
}
static bool isNode(DictionaryAttr node) {
  return node.getAs<StringAttr>("node") && node.getAs<StringAttr>("op") &&
         areAll<DictionaryAttr>(node.get("tensors"), isTensor);
}
static bool isAxis(ArrayAttr axis) {
  return axis.size() == 2 && isa<StringAttr>(axis[0]) && isa<IntegerAttr>(axis[1]);
}

bool tessera::isAnnotatedMesh(Attribute mesh) { return areAll<ArrayAttr>(mesh, isAxis); }
bool tessera::areAnnotatedNodes(Attribute nodes) { return areAll<DictionaryAttr>(nodes, isNode); }

SmallVector<int> tessera::regroupedDims(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  SmallVector<int> result(from.size(), -1);
  if (from == to) {
    for (size_t d = 0; d < from.size(); ++d)
      result[d] = d;
    return result;
  }
  int64_t low = 1;
  for (int d = from.size() - 1; d >= 0; --d) {
    int64_t high = low * from[d], toLow = 1;
    for (int k = to.size() - 1; k >= 0; --k) {
      int64_t toHigh = toLow * to[k];
      if (from[d] > 1 && toLow < high && high <= toHigh)
        result[d] = k;
      toLow = toHigh;
    }
    low = high;
  }
  return result;
}

static ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }

// For each dimension of a variable the one of `value`, which is made of it by moving elements about.
static SmallVector<int> dimsOfVariable(Value value) {
  SmallVector<Operation *> chain;
  Operation *read = readOf(value);
  for (Operation *op = value.getDefiningOp(); op != read; op = op->getOperand(0).getDefiningOp())
    chain.push_back(op);
  SmallVector<int> dims;
  for (size_t d = 0; d < shapeOf(read->getResult(0)).size(); ++d)
    dims.push_back(d);
  for (Operation *op : llvm::reverse(chain)) {
    nn::FactorRule rule = cast<nn::FactorOpInterface>(op).getFactorRule();
    SmallVector<int> next = regroupedDims(shapeOf(op->getOperand(0)), shapeOf(op->getResult(0)));
    for (int &dim : dims) {
      if (dim < 0)
        continue;
      if (rule.isReshape) {
        dim = next[dim];
        continue;
      }
      int factor = rule.operands[0][dim];
      auto found = llvm::find(rule.results[0], factor);
      dim = factor < 0 || found == rule.results[0].end() ? -1 : found - rule.results[0].begin();
    }
  }
  return dims;
}

static int64_t elements(ArrayRef<int64_t> shape) { return ShapedType::getNumElements(shape); }

SmallVector<AnnotatedPlace> tessera::placesIn(nn::FactorOpInterface op, ArrayRef<AnnotatedTensor> tensors) {
  SmallVector<AnnotatedPlace> places;
  SmallVector<unsigned> data;
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    if (Operation *by = operand.getDefiningOp();
        isa<RankedTensorType>(operand.getType()) && !readOf(operand) && (!by || by->getNumOperands() > 0))
      data.push_back(i);
  for (const AnnotatedTensor &tensor : tensors) {
    if (tensor.kind == "output") {
      if (tensor.position == 0 && op->getNumResults() == 1 &&
          elements(shapeOf(op->getResult(0))) == elements(tensor.shape))
        places.push_back({&tensor, -1, regroupedDims(tensor.shape, shapeOf(op->getResult(0)))});
      continue;
    }
    if (tensor.kind == "parameter") {
      for (auto [i, operand] : llvm::enumerate(op->getOperands()))
        if (auto read = dyn_cast_or_null<nn::ReadOp>(readOf(operand));
            read && read.getVariable() == tensor.name)
          places.push_back({&tensor, int(i), dimsOfVariable(operand)});
      continue;
    }
    size_t position = data.size() == 1 ? 0 : tensor.position;
    if (position < data.size() && elements(shapeOf(op->getOperand(data[position]))) == elements(tensor.shape))
      places.push_back({&tensor, int(data[position]),
                        regroupedDims(tensor.shape, shapeOf(op->getOperand(data[position])))});
  }
  return places;
}

AnnotatedSplits tessera::splitsOf(const AnnotatedPlace &place, const nn::FactorRule &rule) {
  AnnotatedSplits splits;
  const nn::DimFactors &factors = place.operand < 0 ? rule.results[0] : rule.operands[place.operand];
  for (auto [d, dim] : llvm::enumerate(place.dims))
    if (dim >= 0 && !place.tensor->split[d].empty() && factors[dim] >= 0)
      llvm::append_range(splits[factors[dim]], place.tensor->split[d]);
  return splits;
}
