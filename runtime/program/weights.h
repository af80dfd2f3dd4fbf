// The variables' values in a weights file, whatever program of the model wrote it.
#pragma once

#include "runtime/program/description.h"
#include "runtime/storage/safetensors.h"

#include <string>
#include <vector>

namespace tessera::rt {

/// A weights file, matched with the variables that come from a file.
class Weights {
public:
  /// Opens the file and finds every variable, by its name or by an alias. Throws Error for missing ones,
  /// wrong shapes and types that cannot be converted. `used`: the variables that the program has (others need
  /// no values). `everything`: also those that start as zero. `constantsLoaded`: the program's constants have
  /// their values already, and may be missing.
  Weights(const std::string &path, const std::vector<Variable> &variables, const std::vector<bool> &used,
          bool everything = false, bool constantsLoaded = false);

  /// Whether variable `index` is read from the file.
  bool has(size_t index) const { return found[index]; }
  /// Whether variable `index` has its value already, which the file does not hold.
  bool keeps(size_t index) const {
    return constantsLoaded && !found[index] && variables[index].role == "buffer";
  }
  const std::map<std::string, std::string> &metadata() const { return reader.metadata(); }

  /// Reads the part of variable `index` that the rank at `coordinates` holds; padding is left alone.
  void load(size_t index, const Mesh &mesh, const Coordinates &coordinates, void *into) const;

  /// What a user should know: tensors that were ignored, variables found under another name.
  const std::vector<std::string> &notes() const { return remarks; }

private:
  SafetensorsReader reader;
  const std::vector<Variable> &variables;
  const bool constantsLoaded;
  std::vector<const StoredTensor *> found;
  std::vector<std::string> remarks;
};

/// Whether a variable belongs into saved weights: parameters do, constants of the program do not.
bool isStored(const Variable &variable);

} // namespace tessera::rt
