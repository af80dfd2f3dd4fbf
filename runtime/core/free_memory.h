// What a process can still have of its machine's memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tessera::rt {

/// Bytes that are free, and by whose limit: `the machine` or `the control group '/jobs/7'`.
struct FreeMemory {
  int64_t bytes;
  std::string where;
};

/// What can be had without swapping: what the kernel calls available, and no more than the limits of the
/// process's control group and of those above it leave (version 2 or 1); pages of files can be given back.
/// Nothing where the system does not say. `root`: where to look for /proc and /sys.
std::optional<FreeMemory> freeMemory(const std::string &root = "");

} // namespace tessera::rt
