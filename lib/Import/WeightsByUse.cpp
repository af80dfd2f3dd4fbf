// Files without metadata: which initializers are weights, judged by the operators that use them.
#include "lib/Import/Parameters.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

namespace tessera {
namespace {

/// Values that depend on what the user feeds in, not only on its shape.
std::set<std::string> dataDependent(const OnnxGraph &graph) {
  std::set<std::string> initializers, dependent;
  for (const OnnxTensor &tensor : graph.initializers)
    initializers.insert(tensor.name);
  for (const OnnxValueInfo &input : graph.inputs)
    if (!initializers.count(input.name))
      dependent.insert(input.name);
  for (const OnnxNode &node : graph.nodes)
    if (node.opType != "Shape" && node.opType != "Size" &&
        llvm::any_of(node.inputs, [&](const std::string &name) { return dependent.count(name) != 0; }))
      dependent.insert(node.outputs.begin(), node.outputs.end());
  return dependent;
}

bool among(llvm::StringRef op, std::initializer_list<llvm::StringRef> ops) {
  return llvm::is_contained(ops, op);
}

class UseJudge {
public:
  explicit UseJudge(const OnnxGraph &graph) : dependent(dataDependent(graph)) {
    for (const OnnxNode &node : graph.nodes)
      for (const std::string &output : node.outputs)
        producers[output] = node.opType;
  }

  /// Whether operand `index` of `node`, holding `tensor` (maybe reshaped), is a weight there.
  bool isWeight(const OnnxNode &node, size_t index, const OnnxTensor &tensor) const {
    llvm::StringRef op = node.opType;
    bool withData = llvm::any_of(llvm::enumerate(node.inputs), [&](const auto &input) {
      return input.index() != index && dependent.count(input.value());
    });
    // Exporters keep a module path only for what was a parameter or a persistent buffer.
    bool named = tensor.name.find('.') != std::string::npos && tensor.name.find("::") == std::string::npos;
    if (among(op, {"MatMul", "Gemm"}))
      return withData && (tensor.dims.size() >= 2 || index == 2);
    if (among(op, {"Conv", "ConvTranspose"}))
      return index >= 1;
    if (among(op, {"LayerNormalization", "RMSNormalization", "GroupNormalization", "InstanceNormalization",
                   "BatchNormalization", "PRelu"}))
      return index == 1 || index == 2;
    if (among(op, {"LSTM", "GRU", "RNN"}))
      return index >= 1 && index <= 3;
    // Rows of a table, or the matrices of those experts that tokens go to.
    if (among(op, {"Gather", "GatherND"}))
      return index == 0 && (tensor.dims.size() == 2 || (tensor.dims.size() == 3 && named && withData));
    if (op == "Add")
      return withData && tensor.numElements() > 1 &&
             (named || (tensor.dims.size() == 1 && afterProduct(node, index)));
    if (op == "Mul")
      return withData && tensor.numElements() > 1 && (named || tensor.dims.size() == 1);
    return op == "Concat" && withData && named;
  }

private:
  bool afterProduct(const OnnxNode &node, size_t index) const {
    auto producer = node.inputs.size() == 2 ? producers.find(node.inputs[1 - index]) : producers.end();
    return producer != producers.end() &&
           among(producer->second, {"MatMul", "Gemm", "Conv", "Reshape", "Einsum"});
  }

  std::set<std::string> dependent;
  std::map<std::string, std::string> producers;
};

} // namespace

std::set<std::string> weightsByUse(const OnnxGraph &graph) {
  UseJudge judge(graph);
  // Values that are an initializer, maybe transposed or reshaped.
  std::map<std::string, const OnnxTensor *> carriers;
  for (const OnnxTensor &tensor : graph.initializers)
    if (isFloating(tensor.type))
      carriers[tensor.name] = &tensor;
  std::set<std::string> weights;
  for (const OnnxNode &node : graph.nodes)
    for (auto [index, input] : llvm::enumerate(node.inputs)) {
      auto carrier = carriers.find(input);
      if (carrier == carriers.end())
        continue;
      if (judge.isWeight(node, index, *carrier->second))
        weights.insert(carrier->second->name);
      else if (index == 0 && among(node.opType, {"Transpose", "Identity", "Cast", "Reshape", "Unsqueeze",
                                                 "Squeeze", "Expand"}))
        carriers[node.outputs[0]] = carrier->second;
    }
  return weights;
}

} // namespace tessera
