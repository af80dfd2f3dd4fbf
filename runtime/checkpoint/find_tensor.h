// A variable in a weights file.
#pragma once

#include "runtime/program/description.h"
#include "runtime/storage/safetensors.h"

#include <optional>
#include <string>

namespace tessera::rt {

/// The tensor of a weights file that is a variable.
struct FoundTensor {
  std::string path, name;
  StoredTensor tensor;
  std::shared_ptr<File> file;

  /// Of its bytes.
  std::string checksum() const;
};

/// By the variable's name or one of its aliases; nothing where there is none of its shape, or of a
/// type that cannot be converted.
std::optional<FoundTensor> findTensor(const SafetensorsReader &reader, const Variable &variable);

} // namespace tessera::rt
