// See free_memory.h. The formats: proc(5), and "Control Group v2" and "Memory Resource Controller" of the
// kernel's documentation.
#include "runtime/core/free_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

namespace tessera::rt {
namespace {

/// The number after `key` at the start of a line; of a file of one number `key` is empty. Nothing for `max`,
/// or where there is no such file.
std::optional<int64_t> numberIn(const std::string &path, const std::string &key = "") {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key))
      continue;
    size_t begin = std::min(line.find_first_not_of(" \t", key.size()), line.size());
    int64_t number = 0;
    auto [end, error] = std::from_chars(line.data() + begin, line.data() + line.size(), number);
    if (error == std::errc())
      return number;
  }
  return {};
}

/// What files and keys are called in a version of control groups.
struct Version {
  const char *folder, *limit, *usage, *fileKeys[2];
};
constexpr Version first{"/sys/fs/cgroup/memory",
                        "memory.limit_in_bytes",
                        "memory.usage_in_bytes",
                        {"total_inactive_file ", "total_active_file "}};
constexpr Version second{
    "/sys/fs/cgroup", "memory.max", "memory.current", {"inactive_file ", "active_file "}};

/// What the limits of `group` and of the groups above it leave. Where a container sees its own group as the
/// root, the folders of its path are missing.
std::optional<FreeMemory> leftBy(const Version &version, const std::string &root, std::string group) {
  std::optional<FreeMemory> least;
  while (true) {
    std::string folder = root + version.folder + (group == "/" ? "" : group) + "/";
    std::optional<int64_t> limit = numberIn(folder + version.limit), used = numberIn(folder + version.usage);
    if (limit && used) {
      int64_t left = *limit - *used;
      for (const char *key : version.fileKeys)
        left += numberIn(folder + "memory.stat", key).value_or(0);
      left = std::clamp<int64_t>(left, 0, *limit);
      if (!least || left < least->bytes)
        least = {left, "the control group '" + group + "'"};
    }
    if (group.size() <= 1)
      return least;
    group.resize(std::max<size_t>(1, group.rfind('/')));
  }
}

} // namespace

std::optional<FreeMemory> freeMemory(const std::string &root) {
  std::optional<FreeMemory> least;
  if (std::optional<int64_t> kib = numberIn(root + "/proc/meminfo", "MemAvailable:"))
    least = {*kib * 1024, "the machine"};
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // hierarchy:controllers:path
    std::istringstream fields(line);
    std::string hierarchy, controllers, group;
    std::getline(fields, hierarchy, ':');
    std::getline(fields, controllers, ':');
    std::getline(fields, group);
    bool isSecond = hierarchy == "0" && controllers.empty();
    if (!group.starts_with('/') ||
        !(isSecond || ("," + controllers + ",").find(",memory,") != std::string::npos))
      continue;
    std::optional<FreeMemory> left = leftBy(isSecond ? second : first, root, group);
    if (left && (!least || left->bytes < least->bytes))
      least = left;
  }
  return least;
}

} // namespace tessera::rt
