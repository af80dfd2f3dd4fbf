// See find_tensor.h.
#include "runtime/checkpoint/find_tensor.h"

#include "runtime/checkpoint/checksum.h"
#include "runtime/storage/elements.h"

namespace tessera::rt {

std::string FoundTensor::checksum() const { return checksumOf(*file, tensor.offset, tensor.bytes); }

std::optional<FoundTensor> findTensor(const SafetensorsReader &reader, const Variable &variable) {
  std::vector<std::string> names = {variable.name};
  names.insert(names.end(), variable.aliases.begin(), variable.aliases.end());
  for (const std::string &name : names)
    if (const StoredTensor *tensor = reader.find(name); tensor && tensor->shape == variable.shape &&
                                                        tensor->dtype &&
                                                        convertible(*tensor->dtype, variable.dtype))
      return FoundTensor{reader.file()->path(), name, *tensor, reader.file()};
  return std::nullopt;
}

} // namespace tessera::rt
