// safetensors files: eight bytes of header length, a JSON header, the tensors' bytes. Read by range and
// written by several ranks at once.
#pragma once

#include "runtime/core/dtype.h"
#include "runtime/storage/file.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tessera::rt {

/// Where one tensor lies in a safetensors file. `offset` counts from the start of the file.
struct StoredTensor {
  std::string typeName;
  /// Absent for element types that programs do not have (8-bit floats); such tensors may be present, not
  /// used.
  std::optional<DType> dtype;
  std::vector<int64_t> shape;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

/// An open safetensors file, its header checked completely: lengths, types, shapes, overlaps.
class SafetensorsReader {
public:
  explicit SafetensorsReader(const std::string &path);

  const std::map<std::string, StoredTensor> &tensors() const { return entries; }
  /// Null when there is none of that name.
  const StoredTensor *find(const std::string &name) const;
  const std::map<std::string, std::string> &metadata() const { return pairs; }
  const std::shared_ptr<File> &file() const { return opened; }

private:
  std::shared_ptr<File> opened;
  std::map<std::string, StoredTensor> entries;
  std::map<std::string, std::string> pairs;
};

/// A tensor to be written.
struct TensorSpec {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
};

/// The header and the places of a safetensors file to be written; the same on every rank for the same
/// arguments.
class SafetensorsPlan {
public:
  SafetensorsPlan(const std::vector<TensorSpec> &tensors, const std::map<std::string, std::string> &metadata);

  /// Length and JSON text: the first bytes of the file.
  const std::string &header() const { return text; }
  /// Bytes of the whole file.
  uint64_t fileBytes() const { return total; }
  /// Offset of the first byte of tensor `index` in the file.
  uint64_t offset(size_t index) const { return offsets[index]; }

private:
  std::string text;
  uint64_t total = 0;
  std::vector<uint64_t> offsets;
};

} // namespace tessera::rt
