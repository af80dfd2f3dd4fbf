// Tells parameters from constants, by the file's metadata or by use, and applies --trainable and --frozen.
#include "lib/Import/Parameters.h"
#include "lib/Import/ImportError.h"
#include "llvm/ADT/STLExtras.h"
#include <fnmatch.h>

using llvm::StringRef;

namespace tessera {

bool isFloating(OnnxType type) {
  return type == OnnxType::Float || type == OnnxType::Double || type == OnnxType::Float16 ||
         type == OnnxType::BFloat16;
}

std::vector<std::string> pythonList(StringRef text) {
  std::vector<std::string> names;
  llvm::SmallVector<StringRef> parts;
  text.trim().trim("[]").split(parts, ',', -1, false);
  for (StringRef part : parts)
    names.push_back(part.trim(" '\"").str());
  return names;
}

Signature readSignature(const OnnxGraph &graph) {
  Signature signature;
  auto found = graph.metadata.find("pkg.torch.export.ExportedProgram.graph_signature");
  if (found == graph.metadata.end())
    return signature;
  llvm::SmallVector<StringRef> lines;
  StringRef(found->second).split(lines, '\n', -1, false);
  for (StringRef line : lines) {
    auto [placeholder, rest] = line.split(": ");
    bool isBuffer = rest.starts_with("BUFFER target='");
    if (!isBuffer && !rest.starts_with("PARAMETER target='"))
      continue;
    std::string name = rest.split('\'').second.split('\'').first.str();
    if (isBuffer) {
      if (rest.contains("persistent=True"))
        signature.savedBuffers.push_back(name);
      continue;
    }
    signature.placeholders[placeholder.trim().str()] = name;
    signature.parameters.insert(name);
  }
  return signature;
}

static const std::string *metadataOf(const OnnxGraph &graph, const std::string &value, const char *key) {
  auto info = graph.valueInfo.find(value);
  if (info == graph.valueInfo.end())
    return nullptr;
  auto found = info->second.metadata.find(key);
  return found == info->second.metadata.end() ? nullptr : &found->second;
}

std::vector<std::string> foldedFrom(const OnnxGraph &graph, const std::string &initializer) {
  const std::string *list = metadataOf(graph, initializer, "pkg.onnxscript.optimizer.folded_from");
  return list ? pythonList(*list) : std::vector<std::string>();
}

std::string sourceOf(const OnnxGraph &graph, const Signature &signature, const std::string &initializer) {
  const std::string *kind = metadataOf(graph, initializer, "pkg.torch.export.graph_signature.InputSpec.kind");
  if ((kind && *kind == "PARAMETER") || signature.parameters.count(initializer))
    return initializer;
  std::vector<std::string> origins = foldedFrom(graph, initializer);
  return origins.size() == 1 && signature.parameters.count(origins[0]) ? origins[0] : "";
}

static bool hasMetadata(const OnnxGraph &graph, const Signature &signature) {
  return !signature.parameters.empty() || llvm::any_of(graph.initializers, [&](const OnnxTensor &tensor) {
    return metadataOf(graph, tensor.name, "pkg.torch.export.graph_signature.InputSpec.kind") != nullptr;
  });
}

/// A parameter that went into a constant together with other things cannot be learned.
static void warnOfLost(const OnnxGraph &graph, const Signature &signature, ParameterPlan &plan) {
  std::set<std::string> present;
  for (const auto &[name, info] : plan.parameters)
    present.insert(info.source);
  for (const OnnxTensor &tensor : graph.initializers)
    for (const std::string &origin : foldedFrom(graph, tensor.name))
      if (!plan.parameters.count(tensor.name) && signature.parameters.count(origin) &&
          present.insert(origin).second)
        plan.warnings.push_back(
            "parameter '" + origin + "' was folded into the constant '" + tensor.name +
            "' by the exporter and is not trained; exporting with optimize=False keeps it (or with a dynamic "
            "batch dimension, where it was expanded to the batch); --trainable '" +
            tensor.name + "' trains the constant itself");
}

/// A module whose own parameter has no initializer and that reads another one's is tied to that.
static void findTied(const OnnxGraph &graph, const Signature &signature, ParameterPlan &plan) {
  std::set<std::string> present;
  for (const auto &[name, info] : plan.parameters)
    present.insert(info.source);
  for (const OnnxNode &node : graph.nodes)
    for (const std::string &input : node.inputs) {
      auto parameter = plan.parameters.find(input);
      if (parameter == plan.parameters.end() || parameter->second.source.empty())
        continue;
      std::string own = node.module + "." + StringRef(parameter->second.source).rsplit('.').second.str();
      if (signature.parameters.count(own) && present.insert(own).second)
        parameter->second.tied.push_back(own);
    }
  for (const std::string &name : signature.parameters)
    if (!present.count(name))
      plan.absent.push_back(name);
  llvm::append_range(plan.absent, signature.savedBuffers);
}

/// Training leaves the running values of a batch normalisation as they are.
static void warnOfBatchNorms(const OnnxGraph &graph, ParameterPlan &plan) {
  for (bool training : {false, true}) {
    std::vector<const OnnxNode *> nodes;
    for (const OnnxNode &node : graph.nodes) {
      auto mode = node.attributes.find("training_mode");
      if (node.opType == "BatchNormalization" &&
          training == (mode != node.attributes.end() && mode->second.i != 0))
        nodes.push_back(&node);
    }
    if (nodes.empty())
      continue;
    std::string which = std::to_string(nodes.size()) + " BatchNormalization node" +
                        (nodes.size() > 1 ? "s" : "") + ", first '" + nodes[0]->name + "', ";
    plan.warnings.push_back(
        training
            ? which +
                  "in training form: statistics are those of the global batch, in inference too; the running "
                  "values are not updated"
            : which +
                  "in inference form: training keeps the mean and variance of the file; export in training "
                  "mode (TorchScript: training=TrainingMode.TRAINING) for statistics of the batch");
  }
}

static void applyGlobs(const OnnxGraph &graph, const ImportOptions &options, ParameterPlan &plan) {
  for (const auto &[trainable, glob] : options.trainable) {
    auto matches = [&](const std::string &name) {
      return !name.empty() && (name == glob || fnmatch(glob.c_str(), name.c_str(), 0) == 0);
    };
    bool used = false;
    for (const OnnxTensor &tensor : graph.initializers) {
      auto found = plan.parameters.find(tensor.name);
      bool hit = matches(tensor.name) ||
                 (found != plan.parameters.end() &&
                  (matches(found->second.source) || llvm::any_of(found->second.tied, matches)));
      if (!hit || !isFloating(tensor.type))
        continue;
      used = true;
      if (found != plan.parameters.end())
        found->second.trained = trainable;
      else if (trainable)
        plan.parameters[tensor.name] = {};
    }
    if (!used)
      throw ImportError(std::string(trainable ? "--trainable '" : "--frozen '") + glob +
                        "' matches no parameter, neither by its name nor by its source");
  }
}

ParameterPlan planParameters(OnnxGraph &graph, const ImportOptions &options) {
  ParameterPlan plan;
  Signature signature = readSignature(graph);
  bool metadata = hasMetadata(graph, signature);
  if (!options.asWritten) {
    if (metadata) {
      restoreMerged(graph, signature, plan);
      restoreExpanded(graph, signature, plan);
    } else {
      restoreDuplicates(graph, plan);
    }
  }
  if (metadata) {
    for (const OnnxTensor &tensor : graph.initializers) {
      std::string source = sourceOf(graph, signature, tensor.name);
      if (source.empty() || !isFloating(tensor.type))
        continue;
      ParameterInfo &info = plan.parameters[tensor.name];
      info.source = source;
      // The exporter folds the Transpose of a linear layer's weight, and nothing else of one matrix alone.
      info.transposed = info.transposed || (source != tensor.name && tensor.dims.size() == 2);
    }
    // What another tool wrote into the file since has no metadata of its own.
    for (const std::string &name : weightsByUse(graph))
      if (!graph.valueInfo.count(name))
        plan.parameters[name];
    warnOfLost(graph, signature, plan);
    findTied(graph, signature, plan);
  } else {
    for (const std::string &name : weightsByUse(graph))
      plan.parameters[name];
  }
  warnOfBatchNorms(graph, plan);
  applyGlobs(graph, options, plan);
  return plan;
}

} // namespace tessera
