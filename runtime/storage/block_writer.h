// Writing a file from its start to its end, past the system's cache.
#pragma once

#include "runtime/storage/file.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

namespace tessera::rt {

/// Collects bytes and writes whole blocks by O_DIRECT, where the file system has that: what nobody reads soon
/// costs the processors a copy into memory of this writer's instead of one into the cache, pages for that,
/// and their way to the disk (half as much time, measured), and pushes nothing else out of the cache.
class BlockWriter {
public:
  /// Creates the file, or empties it. Throws Error.
  explicit BlockWriter(const std::string &path);

  /// Puts bytes behind those before. Throws Error.
  void add(const void *data, size_t bytes);
  /// Writes what is left, and brings all to the disk. Throws Error.
  void finish();

private:
  static constexpr size_t bufferBytes = size_t(1) << 20;

  File file;
  const std::unique_ptr<char, decltype(&std::free)> buffer;
  size_t filled = 0;
  uint64_t written = 0;
};

} // namespace tessera::rt
