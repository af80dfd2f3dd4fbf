// See control.h.
#include "runtime/checkpoint/control.h"

#include "runtime/core/error.h"
#include "runtime/core/toml.h" // IWYU pragma: keep
#include "runtime/storage/file.h"
#include "runtime/storage/folder.h"

#include <algorithm>

namespace tessera::rt {

std::string controlPath(const std::string &checkpoints) { return checkpoints + "/control"; }

void askForSize(const std::string &checkpoints, int64_t size) {
  const std::string path = controlPath(checkpoints), text = "size = " + std::to_string(size) + "\n";
  {
    File file = File::createTemporary(path);
    file.write(0, text.data(), text.size());
    file.sync();
  }
  commitFile(path);
}

int64_t parseControl(const std::string &text) {
  const toml::parse_result parsed = toml::parse(text);
  std::optional<int64_t> size;
  if (parsed && parsed.table().size() == 1)
    size = parsed.table()["size"].value_exact<int64_t>();
  if (!size || *size < 1)
    throw Error("it asks for nothing that is known, such as `size = 2`");
  return *size;
}

std::optional<int64_t> readControl(const std::string &checkpoints) {
  const std::string path = controlPath(checkpoints);
  if (checkpoints.empty() || !pathExists(path))
    return std::nullopt;
  constexpr uint64_t most = 4096;
  const File file = File::openRead(path);
  std::string text(size_t(std::min(file.size(), most)), '\0');
  file.read(0, text.data(), text.size());
  return parseControl(text);
}

} // namespace tessera::rt
