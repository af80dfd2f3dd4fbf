// Undoes what exporters do to parameters whose initial values happen to be equal or zero, so that training is
// the module's.
#include "lib/Import/Parameters.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <cstring>

using llvm::StringRef;

namespace tessera {
namespace {

StringRef lastComponent(StringRef name) {
  return name.rsplit('.').second.empty() ? name : name.rsplit('.').second;
}

/// The parameters among the arguments of the framework's operator that `node` was made from; none when the
/// file does not say.
std::optional<std::vector<std::string>> frameworkParameters(const OnnxNode &node,
                                                            const Signature &signature) {
  auto found = node.metadata.find("pkg.torch.onnx.fx_node");
  if (found == node.metadata.end())
    return std::nullopt;
  std::vector<std::string> names;
  StringRef text = found->second;
  text = text.split("args = (").second; // what precedes names the result
  while (true) {
    size_t start = text.find('%');
    if (start == StringRef::npos)
      return names;
    text = text.drop_front(start + 1);
    StringRef placeholder = text.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    auto parameter = signature.placeholders.find(placeholder.str());
    if (parameter != signature.placeholders.end())
      names.push_back(parameter->second);
  }
}

class MergedRestorer {
public:
  MergedRestorer(OnnxGraph &graph, const Signature &signature, ParameterPlan &plan)
      : graph(graph), signature(signature), plan(plan) {
    for (auto [index, tensor] : llvm::enumerate(graph.initializers)) {
      byName[tensor.name] = index;
      std::string source = sourceOf(graph, signature, tensor.name);
      if (!source.empty()) {
        sources[tensor.name] = source;
        accounted.insert(source);
      }
    }
  }

  void run() {
    for (OnnxNode &node : graph.nodes)
      for (std::string &input : node.inputs)
        if (auto own = sources.find(input); own != sources.end())
          split(node, input, own->second);
    restoreBiases();
    if (restored.empty())
      return;
    constexpr size_t shown = 4; // `explain` and `info` list every parameter
    std::string names = llvm::join(llvm::ArrayRef(restored).take_front(shown), ", ");
    if (restored.size() > shown)
      names += " and " + std::to_string(restored.size() - shown) + " more";
    plan.notes.push_back(
        "restored " + std::to_string(restored.size()) +
        " parameters that the exporter had merged (equal initial values) or dropped (zero biases): " + names +
        "; --as-written leaves the file as it is");
  }

private:
  /// What `node` used before the merge: the module's own parameter, when it is another than `own`.
  std::string originalOf(const OnnxNode &node, const std::string &own, size_t rank) const {
    std::string byScope = node.module + "." + lastComponent(own).str();
    std::optional<std::vector<std::string>> arguments = frameworkParameters(node, signature);
    if (!arguments) // small matrices may be tied; vectors are merged far more often than tied
      return rank == 1 && signature.parameters.count(byScope) ? byScope : own;
    if (arguments->empty() || llvm::is_contained(*arguments, own))
      return own;
    if (llvm::is_contained(*arguments, byScope))
      return byScope;
    std::vector<std::string> candidates;
    for (const std::string &argument : *arguments)
      if (!accounted.count(argument) && lastComponent(argument) == lastComponent(own))
        candidates.push_back(argument);
    return candidates.size() == 1 ? candidates[0] : own;
  }

  void split(const OnnxNode &node, std::string &input, const std::string &own) {
    size_t index = byName.at(input);
    std::string original = originalOf(node, own, graph.initializers[index].dims.size());
    if (original == own)
      return;
    if (auto known = restoredFrom.find(original); known != restoredFrom.end()) {
      if (known->second == input)
        input = original;
      return;
    }
    if (accounted.count(original) || byName.count(original))
      return;
    OnnxTensor copy = graph.initializers[index];
    copy.name = original;
    ParameterInfo info;
    info.aliases = {input};
    info.transposed = own != input && copy.dims.size() == 2;
    add(std::move(copy), std::move(info));
    restoredFrom[original] = input;
    input = original;
  }

  void add(OnnxTensor tensor, ParameterInfo info) {
    restored.push_back(tensor.name);
    accounted.insert(tensor.name);
    byName[tensor.name] = graph.initializers.size();
    info.source = tensor.name;
    plan.parameters[tensor.name] = std::move(info);
    graph.initializers.push_back(std::move(tensor));
  }

  /// A linear or convolution layer whose `bias` the framework lists and the file lacks.
  void restoreBiases() {
    std::vector<OnnxNode> nodes;
    for (OnnxNode &node : graph.nodes) {
      bool gemm = node.opType == "Gemm", conv = node.opType == "Conv", product = node.opType == "MatMul";
      std::string bias = node.module + ".bias";
      auto weight = node.inputs.size() > 1 ? sources.find(node.inputs[1]) : sources.end();
      bool open = (gemm || conv || product) && (node.inputs.size() < 3 || node.inputs[2].empty()) &&
                  weight != sources.end() && signature.parameters.count(bias) && !accounted.count(bias);
      std::optional<std::vector<std::string>> arguments =
          open ? frameworkParameters(node, signature) : std::nullopt;
      if (!open || (arguments && !llvm::is_contained(*arguments, bias))) {
        nodes.push_back(std::move(node));
        continue;
      }
      const OnnxTensor &matrix = graph.initializers[byName.at(weight->first)];
      bool rowsAreOutputs =
          conv || (gemm && node.attributes.count("transB") && node.attributes.at("transB").i);
      OnnxTensor zeros;
      zeros.name = bias;
      zeros.type = matrix.type;
      zeros.dims = {rowsAreOutputs ? matrix.dims.front() : matrix.dims.back()};
      auto bytes = std::make_shared<std::string>(zeros.dims[0] * elementBytes(zeros.type), '\0');
      zeros.bytes = {bytes, *bytes};
      ParameterInfo info;
      info.dropped = true;
      add(std::move(zeros), std::move(info));
      if (!product) {
        node.inputs.resize(2);
        node.inputs.push_back(bias);
        nodes.push_back(std::move(node));
        continue;
      }
      OnnxNode sum;
      sum.name = node.name + "/bias";
      sum.opType = "Add";
      sum.module = node.module;
      sum.outputs = node.outputs;
      node.outputs[0] += "/product";
      sum.inputs = {node.outputs[0], bias};
      nodes.push_back(std::move(node));
      nodes.push_back(std::move(sum));
    }
    graph.nodes = std::move(nodes);
  }

  OnnxGraph &graph;
  const Signature &signature;
  ParameterPlan &plan;
  std::map<std::string, size_t> byName;
  std::map<std::string, std::string> sources;      // initializer to its parameter
  std::map<std::string, std::string> restoredFrom; // restored parameter to the initializer it was merged into
  std::set<std::string> accounted;                 // parameters that have an initializer
  std::vector<std::string> restored;
};

/// Whether `matrix` [i, o] is the transpose of `table` [o, i]; not where the values are absent.
bool isTransposeOf(const OnnxTensor &matrix, const OnnxTensor &table) {
  if (!matrix.absentFile.empty() || !table.absentFile.empty() || matrix.type != table.type ||
      matrix.dims.size() != 2 || table.dims.size() != 2 || matrix.dims[0] != table.dims[1] ||
      matrix.dims[1] != table.dims[0])
    return false;
  int64_t rows = matrix.dims[0], columns = matrix.dims[1], width = elementBytes(matrix.type);
  const char *a = matrix.bytes.data.data(), *b = table.bytes.data.data();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      if (std::memcmp(a + (r * columns + c) * width, b + (c * rows + r) * width, width) != 0)
        return false;
  return true;
}

/// `Identity(*a) -> b` of a weight: b is the name of a parameter that had a's initial values.
void splitIdentities(OnnxGraph &graph, ParameterPlan &plan) {
  std::set<std::string> weights = weightsByUse(graph), outputs;
  for (const OnnxValueInfo &output : graph.outputs)
    outputs.insert(output.name);
  std::map<std::string, size_t> byName;
  for (auto [index, tensor] : llvm::enumerate(graph.initializers))
    byName[tensor.name] = index;
  std::vector<OnnxNode> kept;
  std::vector<std::string> names;
  for (OnnxNode &node : graph.nodes) {
    if (node.opType != "Identity" || node.inputs.empty() || node.outputs[0].empty() ||
        !weights.count(node.inputs[0]) || outputs.count(node.outputs[0]) || !byName.count(node.inputs[0])) {
      kept.push_back(std::move(node));
      continue;
    }
    OnnxTensor copy = graph.initializers[byName[node.inputs[0]]];
    copy.name = node.outputs[0];
    plan.parameters[copy.name].aliases = {node.inputs[0]};
    names.push_back(copy.name);
    graph.initializers.push_back(std::move(copy));
  }
  graph.nodes = std::move(kept);
  if (!names.empty())
    plan.notes.push_back("restored " + std::to_string(names.size()) +
                         " parameters that the exporter had merged (equal initial values): " +
                         llvm::join(names, ", ") + "; --as-written leaves the file as it is");
}

OnnxNode madeOf(const OnnxTensor &from, const OnnxTensor &to, bool transposed) {
  OnnxNode node;
  node.name = to.name + "/tied";
  node.opType = transposed ? "Transpose" : "Identity";
  node.inputs = {from.name};
  node.outputs = {to.name};
  if (transposed) {
    node.attributes["perm"].kind = OnnxAttribute::Kind::Ints;
    node.attributes["perm"].ints = {1, 0};
  }
  return node;
}

/// A head that is an exact transposed copy of an embedding table was tied to it.
void tieHeads(OnnxGraph &graph, ParameterPlan &plan) {
  std::set<std::string> tables, heads;
  for (const OnnxNode &node : graph.nodes) {
    if (node.inputs.size() < 2)
      continue;
    if (node.opType == "Gather")
      tables.insert(node.inputs[0]);
    if (node.opType == "MatMul" || node.opType == "Gemm")
      heads.insert(node.inputs[1]);
  }
  std::vector<const OnnxTensor *> found; // of the tables, in the order of the file
  for (const OnnxTensor &tensor : graph.initializers)
    if (tables.count(tensor.name))
      found.push_back(&tensor);
  std::vector<OnnxTensor> kept;
  std::vector<OnnxNode> transposes;
  for (const OnnxTensor &tensor : graph.initializers) {
    bool isHead = isFloating(tensor.type) && heads.count(tensor.name);
    auto tied = llvm::find_if(found, [&](const OnnxTensor *table) {
      return isHead && table != &tensor && isTransposeOf(tensor, *table);
    });
    if (tied == found.end()) {
      kept.push_back(tensor);
      continue;
    }
    transposes.push_back(madeOf(**tied, tensor, true));
    plan.notes.push_back("tied '" + tensor.name + "' to '" + (*tied)->name +
                         "', whose transposed copy it is; --as-written keeps it apart");
  }
  graph.initializers = std::move(kept);
  graph.nodes.insert(graph.nodes.begin(), transposes.begin(), transposes.end());
}

/// The exporter folds the transpose of a weight once for each use: a weight used twice becomes two. The first
/// stays, the others are made of it.
void tieCopies(OnnxGraph &graph, const Signature &signature) {
  std::map<std::string, size_t> firsts; // by source, among the kept
  std::vector<OnnxTensor> kept;
  std::vector<OnnxNode> made;
  for (OnnxTensor &tensor : graph.initializers) {
    std::string source = sourceOf(graph, signature, tensor.name);
    if (auto first = firsts.find(source); first != firsts.end() && isFloating(tensor.type)) {
      const OnnxTensor &copied = kept[first->second];
      bool same = copied.type == tensor.type && copied.dims == tensor.dims && copied.absentFile.empty() &&
                  tensor.absentFile.empty() && copied.bytes.data == tensor.bytes.data;
      if (same || isTransposeOf(tensor, copied)) {
        made.push_back(madeOf(copied, tensor, !same));
        continue;
      }
    }
    if (!source.empty())
      firsts.try_emplace(source, kept.size());
    kept.push_back(std::move(tensor));
  }
  graph.initializers = std::move(kept);
  graph.nodes.insert(graph.nodes.begin(), made.begin(), made.end());
}

} // namespace

void restoreMerged(OnnxGraph &graph, const Signature &signature, ParameterPlan &plan) {
  MergedRestorer(graph, signature, plan).run();
  tieCopies(graph, signature);
}

void restoreDuplicates(OnnxGraph &graph, ParameterPlan &plan) {
  splitIdentities(graph, plan);
  tieHeads(graph, plan);
}

} // namespace tessera
