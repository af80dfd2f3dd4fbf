// Inlines model-local functions.
#include "lib/Import/Functions.h"
#include "lib/Import/ImportError.h"

namespace tessera {
namespace {

class Inliner {
public:
  explicit Inliner(const std::vector<OnnxFunction> &functions) {
    for (const OnnxFunction &function : functions)
      byName[{function.domain, function.name}] = &function;
  }

  void expand(OnnxNode node, std::vector<OnnxNode> &result, int depth) {
    auto found = byName.find({node.domain, node.opType});
    if (found == byName.end()) {
      result.push_back(std::move(node));
      return;
    }
    const OnnxFunction &function = *found->second;
    // ONNX forbids recursion; without a limit a malicious file would never end.
    if (depth > 32 || result.size() > 10'000'000)
      throw ImportError("function '" + function.name + "' calls itself");
    if (node.inputs.size() > function.inputs.size() || node.outputs.size() > function.outputs.size())
      throw ImportError("node '" + node.name + "' passes more values than function '" + function.name +
                        "' takes");
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
      expand(std::move(inner), result, depth + 1);
    }
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

  std::map<std::pair<std::string, std::string>, const OnnxFunction *> byName;
};

} // namespace

void inlineFunctions(OnnxGraph &graph, const std::vector<OnnxFunction> &functions) {
  if (functions.empty())
    return;
  Inliner inliner(functions);
  std::vector<OnnxNode> nodes;
  for (OnnxNode &node : graph.nodes)
    inliner.expand(std::move(node), nodes, 0);
  graph.nodes = std::move(nodes);
  graph.annotatedCalls = std::move(inliner.annotatedCalls);
}

} // namespace tessera
