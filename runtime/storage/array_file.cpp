// See array_file.h.
#include "runtime/storage/array_file.h"

#include "runtime/core/error.h"
#include "runtime/storage/npy.h"
#include "runtime/storage/safetensors.h"
#include "runtime/storage/zip.h"

namespace tessera::rt {
namespace {

bool endsWith(const std::string &text, const std::string &end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

ArrayFile fromNpy(const std::string &path, const std::string &what, std::unique_ptr<ByteSource> source) {
  NpyHeader header = readNpyHeader(*source, what);
  return {path, header.dtype, header.shape, header.fortran, header.offset, std::move(source)};
}

[[noreturn]] void failMissing(const std::string &path, const std::string &name, const std::string &present) {
  throw Error("'" + path + "' holds no array '" + name + "'; it holds " +
              (present.empty() ? "none" : present));
}

ArrayFile fromNpz(const std::string &path, const std::string &name) {
  auto file = std::make_shared<File>(File::openRead(path));
  std::string present;
  std::vector<ZipMember> members = readZipDirectory(*file);
  for (const ZipMember &member : members) {
    if (member.name == name + ".npy" || member.name == name || members.size() == 1)
      return fromNpy(path, "'" + path + "': " + member.name, openZipMember(file, member));
    present += (present.empty() ? "" : ", ") + member.name;
  }
  failMissing(path, name, present);
}

ArrayFile fromSafetensors(const std::string &path, const std::string &name) {
  SafetensorsReader reader(path);
  const StoredTensor *tensor = reader.find(name);
  if (!tensor && reader.tensors().size() == 1)
    tensor = &reader.tensors().begin()->second;
  std::string present;
  if (!tensor) {
    for (const auto &[other, entry] : reader.tensors())
      present += (present.empty() ? "" : ", ") + other;
    failMissing(path, name, present);
  }
  if (!tensor->dtype)
    throw Error("'" + path + "': array '" + name + "' has element type " + tensor->typeName +
                ", which programs do not have");
  return {path,
          *tensor->dtype,
          tensor->shape,
          false,
          0,
          makeFileSource(reader.file(), tensor->offset, tensor->bytes)};
}

} // namespace

ArrayFile openArray(const std::string &path, const std::string &name) {
  if (endsWith(path, ".npz"))
    return fromNpz(path, name);
  if (endsWith(path, ".safetensors"))
    return fromSafetensors(path, name);
  if (!endsWith(path, ".npy"))
    throw Error("cannot read the array '" + name + "' from '" + path +
                "': its name must end in .npy, .npz or .safetensors");
  auto file = std::make_shared<File>(File::openRead(path));
  uint64_t bytes = file->size();
  return fromNpy(path, "'" + path + "'", makeFileSource(std::move(file), 0, bytes));
}

} // namespace tessera::rt
