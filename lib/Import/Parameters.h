// Which initializers are parameters, under which names they were trained, and the repair of what exporters do
// to them.
#ifndef TESSERA_LIB_IMPORT_PARAMETERS_H
#define TESSERA_LIB_IMPORT_PARAMETERS_H

#include "lib/Import/Import.h"
#include "lib/Import/OnnxGraph.h"
#include <set>

namespace tessera {

struct ParameterInfo {
  bool trained = true;
  /// The name in the exporting framework; "" where the file does not say.
  std::string source;
  /// The initializer is the source's transpose.
  bool transposed = false;
  /// Further names of the parameter in the exporting framework, which it is tied to.
  std::vector<std::string> tied;
  /// Names under which weights of the file as written hold this parameter.
  std::vector<std::string> aliases;
  /// Zeros that the exporter dropped from the file: weights of the file as written lack it.
  bool dropped = false;
};

struct ParameterPlan {
  /// By initializer name.
  std::map<std::string, ParameterInfo> parameters;
  /// What the framework's module has besides: parameters without an initializer, and buffers that it saves.
  std::vector<std::string> absent;
  std::vector<std::string> notes, warnings;
};

/// Names in the graph's `graph_signature`.
struct Signature {
  /// fx placeholder (`p_model_norm_weight`) to parameter (`model.norm.weight`).
  std::map<std::string, std::string> placeholders;
  std::set<std::string> parameters;
  std::vector<std::string> savedBuffers;
};
Signature readSignature(const OnnxGraph &graph);

/// Decides what the parameters of `graph` are. First, unless `options.asWritten`, rewrites the graph:
/// parameters that the exporter merged, dropped, duplicated or untied get their own (or a common) initializer
/// again.
ParameterPlan planParameters(OnnxGraph &graph, const ImportOptions &options);

/// The names in `['a', 'b']`.
std::vector<std::string> pythonList(llvm::StringRef text);
/// The parameter names that the initializer's value was folded from, and itself when it is called a
/// parameter.
std::vector<std::string> foldedFrom(const OnnxGraph &graph, const std::string &initializer);
/// The one parameter that the initializer holds, maybe transposed; "" for constants.
std::string sourceOf(const OnnxGraph &graph, const Signature &signature, const std::string &initializer);
bool isFloating(OnnxType type);

/// Names of initializers that are weights by their use.
std::set<std::string> weightsByUse(const OnnxGraph &graph);
/// Gives merged parameters and dropped zero biases their own initializers, by the file's metadata; adds their
/// aliases to `plan`.
void restoreMerged(OnnxGraph &graph, const Signature &signature, ParameterPlan &plan);
/// Gives a parameter that was folded into a constant of equal copies (a class token expanded to the batch)
/// its own initializer and the expansion its node again, by the file's metadata.
void restoreExpanded(OnnxGraph &graph, const Signature &signature, ParameterPlan &plan);
/// TorchScript files: makes duplicates by Identity parameters of their own, and ties heads that are a
/// transposed copy of a table.
void restoreDuplicates(OnnxGraph &graph, ParameterPlan &plan);

} // namespace tessera
#endif
