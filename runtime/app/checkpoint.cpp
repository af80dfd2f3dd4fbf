// See checkpoint.h.
#include "runtime/app/checkpoint.h"

#include "runtime/storage/file.h"
#include "runtime/storage/safetensors.h"

#include <charconv>
#include <filesystem>

namespace tessera::rt {
namespace {

constexpr const char *prefix = "step-", *suffix = ".safetensors";

/// The step in a checkpoint's file name, or -1.
int64_t stepOf(const std::string &name) {
  std::string start = prefix, end = suffix;
  if (name.size() <= start.size() + end.size() || name.compare(0, start.size(), start) != 0 ||
      name.compare(name.size() - end.size(), end.size(), end) != 0)
    return -1;
  int64_t step = -1;
  const char *last = name.data() + name.size() - end.size();
  auto [stop, error] = std::from_chars(name.data() + start.size(), last, step);
  return error == std::errc() && stop == last ? step : -1;
}

std::string pathOf(const std::string &folder, int64_t step) { return folder + "/" + prefix + std::to_string(step) + suffix; }

} // namespace

void saveCheckpoint(Session &session, const std::string &folder, int64_t step, std::map<std::string, std::string> metadata) {
  session.agreed([&] {
    if (session.rank() == 0)
      createFolders(folder);
  });
  metadata["step"] = std::to_string(step);
  session.saveVariables(pathOf(folder, step), metadata, true);
}

int64_t resumeCheckpoint(Session &session, const std::string &folder, std::map<std::string, std::string> &metadata) {
  int64_t latest = -1;
  session.agreed([&] {
    std::error_code error;
    std::filesystem::directory_iterator files(folder, error);
    if (error)
      throw Error("cannot read the folder '", folder, "': ", error.message());
    for (const auto &entry : files)
      latest = std::max(latest, stepOf(entry.path().filename().string()));
    if (latest < 0)
      throw Error("'", folder, "' holds no checkpoint (", prefix, "N", suffix, ")");
  });
  session.communication().agreeOn("the last checkpoint in '" + folder + "'", std::to_string(latest));
  session.loadVariables(pathOf(folder, latest), true);
  session.agreed([&] { metadata = SafetensorsReader(pathOf(folder, latest)).metadata(); });
  return latest;
}

} // namespace tessera::rt
