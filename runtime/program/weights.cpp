// See weights.h.
#include "runtime/program/weights.h"

#include "runtime/core/error.h"
#include "runtime/storage/array_reader.h"
#include "runtime/storage/elements.h"

#include <set>

namespace tessera::rt {
namespace {

/// `'a', 'b', 'c' and 4 more`
std::string shortList(const std::vector<std::string> &names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < 3; ++i)
    text += (i ? ", '" : "'") + names[i] + "'";
  return names.size() > 3 ? text + " and " + std::to_string(names.size() - 3) + " more" : text;
}

} // namespace

bool isStored(const Variable &variable) { return variable.role == "parameter"; }

Weights::Weights(const std::string &path, const std::vector<Variable> &variables,
                 const std::vector<bool> &used, bool everything, bool constantsLoaded)
    : reader(path), variables(variables), constantsLoaded(constantsLoaded), found(variables.size()) {
  std::vector<std::string> missing, renamed, extra;
  std::set<std::string> known;
  for (size_t i = 0; i < variables.size(); ++i) {
    const Variable &variable = variables[i];
    known.insert(variable.name);
    known.insert(variable.aliases.begin(), variable.aliases.end());
    // A parameter that starts as zero (one that the exporter dropped and the compiler restored) may be in the
    // file.
    bool optional = variable.init != "file" && variable.role == "parameter" && !everything;
    if (!used[i] || (variable.init != "file" && !everything && !optional))
      continue;
    const StoredTensor *tensor = reader.find(variable.name);
    for (size_t a = 0; !tensor && a < variable.aliases.size(); ++a) {
      tensor = reader.find(variable.aliases[a]);
      if (tensor)
        renamed.push_back(variable.name);
    }
    if (!tensor) {
      // Constants are not in saved weights; the executable's own file has been read before.
      if (optional || (constantsLoaded && variable.role == "buffer"))
        continue;
      missing.push_back(variable.name);
      continue;
    }
    if (tensor->shape != variable.shape)
      throw Error("weights '" + path + "': parameter '" + variable.name + "' has shape " +
                  formatShape(tensor->shape) + ", the program was compiled for " +
                  formatShape(variable.shape));
    if (!tensor->dtype || !convertible(*tensor->dtype, variable.dtype))
      throw Error("weights '" + path + "': parameter '" + variable.name + "' has type " + tensor->typeName +
                  ", the program expects " + dtypeLongName(variable.dtype));
    found[i] = tensor;
  }
  for (const auto &[name, tensor] : reader.tensors())
    if (!known.count(name))
      extra.push_back(name);
  if (!missing.empty())
    throw Error("weights '" + path + "' lack " + std::to_string(missing.size()) +
                " parameters of the program: " + shortList(missing) +
                (extra.empty() ? "" : "; they hold others, such as " + shortList(extra)) +
                ". Are they of this model?");
  if (!renamed.empty())
    remarks.push_back(
        "weights '" + path + "': " + std::to_string(renamed.size()) +
        " parameters are read from the name that another one has in the file: " + shortList(renamed));
  if (!extra.empty())
    remarks.push_back("weights '" + path + "': " + std::to_string(extra.size()) +
                      " tensors are not of this program and are ignored: " + shortList(extra));
}

void Weights::load(size_t index, const Mesh &mesh, const Coordinates &coordinates, void *into) const {
  const Variable &variable = variables[index];
  const StoredTensor &tensor = *found[index];
  ArrayFile array{reader.file()->path(),
                  *tensor.dtype,
                  tensor.shape,
                  false,
                  0,
                  makeFileSource(reader.file(), tensor.offset, tensor.bytes)};
  ValueCheck anything;
  anything.nan = false;
  readLocal(array, variable.name, variable.layout, variable.flat, mesh, coordinates, variable.dtype, into,
            anything);
}

} // namespace tessera::rt
