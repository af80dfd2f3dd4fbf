// Model-local functions: nodes that call one are replaced by its body.
#ifndef TESSERA_LIB_IMPORT_FUNCTIONS_H
#define TESSERA_LIB_IMPORT_FUNCTIONS_H

#include "lib/Import/OnnxGraph.h"

namespace tessera {

/// An attribute of a body node whose `kind` is Other and whose `s` begins with '\x01' refers to the attribute
/// of the call with the name that follows.
struct OnnxFunction {
  std::string name, domain;
  std::vector<std::string> inputs, outputs;
  std::set<std::string> attributes; ///< that calls give; those with defaults are apart
  std::map<std::string, OnnxAttribute> defaults;
  std::vector<OnnxNode> nodes;
};

/// Replaces every call in `graph`, nested ones too. Throws ImportError for recursion and for calls with too
/// many values.
void inlineFunctions(OnnxGraph &graph, const std::vector<OnnxFunction> &functions);

} // namespace tessera
#endif
