// Inlines model-local functions.
#include "lib/Import/Functions.h"
#include "lib/Import/ImportError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace tessera {
namespace {

class Inliner {
public:
  explicit Inliner(const std::vector<OnnxFunction> &functions) {
    for (const OnnxFunction &function : functions)
      if (!byName.try_emplace({function.domain, function.name}, &function).second)
        throw ImportError("function '" + function.name + "' of domain '" + function.domain +
                          "' is defined twice");
  }

  void expand(OnnxNode node, std::vector<OnnxNode> &result) {
    // Without limits a small file could ask for more nodes than there is memory.
    if (++expanded > maxNodes)
      throw ImportError("the file's functions expand to more than " + llvm::Twine(maxNodes) + " nodes");
    auto found = byName.find({node.domain, node.opType});
    if (found == byName.end()) {
      result.push_back(std::move(node));
      return;
    }
    const OnnxFunction &function = *found->second;
    if (llvm::is_contained(calls, &function))
      throw ImportError("function '" + function.name + "' calls itself, which ONNX forbids");
    if (calls.size() >= maxDepth)
      throw ImportError("functions are nested more than " + llvm::Twine(maxDepth) + " deep, the last is '" +
                        function.name + "'");
    if (node.inputs.size() > function.inputs.size() || node.outputs.size() > function.outputs.size())
      throw ImportError("node '" + node.name + "' passes more values than function '" + function.name +
                        "' takes");
    for (const auto &[name, attribute] : node.attributes)
      if (!function.attributes.count(name) && !function.defaults.count(name))
        throw ImportError("node '" + node.name + "' passes the attribute '" + name + "', which function '" +
                          function.name + "' does not have");
    if (!node.sharding.empty())
      annotatedCalls.push_back(node.name);
    std::string prefix = node.name.empty() ? node.outputs.empty() ? "" : node.outputs[0] : node.name;
    prefix += "/";
    std::map<std::string, std::string> names{{"", ""}};
    for (size_t i = 0; i < function.inputs.size(); ++i)
      names[function.inputs[i]] = i < node.inputs.size() ? node.inputs[i] : "";
    for (size_t i = 0; i < function.outputs.size() && i < node.outputs.size(); ++i)
      if (!node.outputs[i].empty())
        names[function.outputs[i]] = node.outputs[i];
    auto rename = [&](std::string &name) { name = names.try_emplace(name, prefix + name).first->second; };
    calls.push_back(&function);
    for (OnnxNode inner : function.nodes) {
      for (std::string &input : inner.inputs)
        rename(input);
      for (std::string &output : inner.outputs)
        rename(output);
      for (NodeSharding &sharding : inner.sharding)
        for (ShardingSpec &spec : sharding.specs)
          rename(spec.tensor);
      substitute(inner, node, function);
      inner.name = prefix + inner.name;
      if (inner.module.empty())
        inner.module = node.module;
      expand(std::move(inner), result);
    }
    calls.pop_back();
  }

  std::vector<std::string> annotatedCalls;

private:
  static void substitute(OnnxNode &inner, const OnnxNode &call, const OnnxFunction &function) {
    for (auto it = inner.attributes.begin(); it != inner.attributes.end();) {
      OnnxAttribute &attribute = it->second;
      if (attribute.kind != OnnxAttribute::Kind::Other || attribute.s.empty() || attribute.s[0] != '\x01') {
        ++it;
        continue;
      }
      std::string name = attribute.s.substr(1);
      if (auto given = call.attributes.find(name); given != call.attributes.end()) {
        attribute = given->second;
        ++it;
      } else if (auto standard = function.defaults.find(name); standard != function.defaults.end()) {
        attribute = standard->second;
        ++it;
      } else {
        it = inner.attributes.erase(it); // left out by the call: the operator's own default
      }
    }
  }

  static constexpr size_t maxNodes = 100'000, maxDepth = 100;

  std::map<std::pair<std::string, std::string>, const OnnxFunction *> byName;
  llvm::SmallVector<const OnnxFunction *> calls; // around the node at hand
  size_t expanded = 0;
};

} // namespace

void inlineFunctions(OnnxGraph &graph, const std::vector<OnnxFunction> &functions) {
  if (functions.empty())
    return;
  Inliner inliner(functions);
  std::vector<OnnxNode> nodes;
  for (OnnxNode &node : graph.nodes)
    inliner.expand(std::move(node), nodes);
  graph.nodes = std::move(nodes);
  graph.annotatedCalls = std::move(inliner.annotatedCalls);
}

} // namespace tessera
