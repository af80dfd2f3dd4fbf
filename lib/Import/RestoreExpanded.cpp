// Undoes the folding of a parameter's expansion (a class token to the batch) into a constant of equal copies.
#include "lib/Import/Parameters.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <cstring>

using llvm::StringRef;

namespace tessera {
namespace {

/// Whether `name` is the exporter's for a result of the framework's operator `op`: `op`, `op_1`, ...
bool isResultOf(StringRef name, StringRef op) {
  if (!name.consume_front(op))
    return false;
  return name.empty() || (name.consume_front("_") && !name.empty() && llvm::all_of(name, llvm::isDigit));
}

/// The parameter that `tensor` consists of copies of; "" where the file says that anything else went into it.
/// The exporter lists every named value on the way, and numbers the sizes of the expansion (`val_6`).
std::string expandedParameter(const OnnxGraph &graph, const Signature &signature, const OnnxTensor &tensor) {
  if (!isResultOf(tensor.name, "expand") && !isResultOf(tensor.name, "repeat"))
    return "";
  std::string parameter;
  for (const std::string &origin : foldedFrom(graph, tensor.name)) {
    if (isResultOf(origin, "val"))
      continue;
    if (!parameter.empty() || !signature.parameters.count(origin))
      return "";
    parameter = origin;
  }
  return parameter;
}

/// Whether all positions of dimension `dim` hold the same.
bool isConstantAlong(const OnnxTensor &tensor, size_t dim) {
  int64_t inner = elementBytes(tensor.type), outer = 1, size = tensor.dims[dim];
  for (size_t d = 0; d < tensor.dims.size(); ++d)
    (d < dim ? outer : inner) *= d == dim ? 1 : tensor.dims[d];
  const char *bytes = tensor.bytes.data.data();
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t k = 1; k < size; ++k)
      if (std::memcmp(bytes + o * size * inner, bytes + (o * size + k) * inner, inner) != 0)
        return false;
  return true;
}

/// The shape before the expansion, with ones where the copies are; nothing where the values do not tell. When
/// all values are equal (a parameter that starts as zeros), only [copies, 1, .., 1, n] does.
std::optional<std::vector<int64_t>> shapeBefore(const OnnxTensor &tensor) {
  std::vector<int64_t> shape = tensor.dims;
  bool allEqual = true;
  for (size_t d = 0; d < shape.size(); ++d) {
    bool equal = isConstantAlong(tensor, d);
    allEqual = allEqual && equal;
    if (equal)
      shape[d] = 1;
  }
  if (!allEqual)
    return shape == tensor.dims ? std::nullopt : std::optional(shape);
  if (tensor.dims.size() < 2 || tensor.dims[0] == 1 ||
      llvm::any_of(llvm::ArrayRef(tensor.dims).drop_front().drop_back(), [](int64_t n) { return n != 1; }))
    return std::nullopt;
  shape.back() = tensor.dims.back();
  return shape;
}

/// The first copy: the values at position 0 of every dimension that `before` has once.
OnnxTensor firstCopy(const OnnxTensor &tensor, const std::vector<int64_t> &before) {
  OnnxTensor copy = tensor;
  copy.dims = before;
  int64_t width = elementBytes(tensor.type);
  auto bytes = std::make_shared<std::string>();
  for (int64_t e = 0; e < tensor.numElements(); ++e) {
    bool first = true;
    int64_t rest = e;
    for (size_t d = before.size(); d-- > 0; rest /= tensor.dims[d])
      first = first && rest % tensor.dims[d] < before[d];
    if (first)
      bytes->append(tensor.bytes.data.substr(e * width, width));
  }
  copy.bytes = {bytes, *bytes};
  return copy;
}

OnnxTensor sizes(const std::string &name, llvm::ArrayRef<int64_t> values) {
  OnnxTensor tensor;
  tensor.name = name;
  tensor.type = OnnxType::Int64;
  tensor.dims = {static_cast<int64_t>(values.size())};
  auto bytes = std::make_shared<std::string>(reinterpret_cast<const char *>(values.data()),
                                             values.size() * sizeof(int64_t));
  tensor.bytes = {bytes, *bytes};
  return tensor;
}

} // namespace

void restoreExpanded(OnnxGraph &graph, const Signature &signature, ParameterPlan &plan) {
  std::set<std::string> present;
  for (const OnnxTensor &tensor : graph.initializers) {
    present.insert(tensor.name);
    present.insert(sourceOf(graph, signature, tensor.name));
  }
  std::vector<OnnxTensor> initializers;
  std::vector<OnnxNode> expansions;
  std::vector<std::string> restored;
  for (OnnxTensor &tensor : graph.initializers) {
    std::string parameter = expandedParameter(graph, signature, tensor);
    std::optional<std::vector<int64_t>> before;
    if (!parameter.empty() && isFloating(tensor.type) && tensor.absentFile.empty() && tensor.numElements() &&
        !present.count(parameter))
      before = shapeBefore(tensor);
    if (!before) {
      initializers.push_back(std::move(tensor));
      continue;
    }
    OnnxNode node;
    node.name = tensor.name;
    node.opType = "Expand";
    node.inputs = {parameter, tensor.name + "/shape"};
    node.outputs = {tensor.name};
    expansions.push_back(node);
    initializers.push_back(firstCopy(tensor, *before));
    initializers.back().name = parameter;
    initializers.push_back(sizes(node.inputs[1], tensor.dims));
    present.insert(parameter);
    plan.parameters[parameter].source = parameter;
    restored.push_back(parameter);
  }
  graph.initializers = std::move(initializers);
  graph.nodes.insert(graph.nodes.begin(), expansions.begin(), expansions.end());
  if (!restored.empty())
    plan.notes.push_back("restored " + std::to_string(restored.size()) +
                         " parameters that the exporter had folded into constants of equal copies: " +
                         llvm::join(restored, ", ") + "; --as-written leaves the file as it is");
}

} // namespace tessera
