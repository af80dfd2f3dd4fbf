// Checksums of what checkpoints hold: XXH3 with 128 bits (xxhash.com), which hashes as fast as memory is
// read. They find damage, not malice.
#pragma once

#include "runtime/storage/file.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace tessera::rt {

/// The sum of bytes that come one after the other.
class Checksum {
public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum &) = delete;
  Checksum &operator=(const Checksum &) = delete;

  void add(const void *data, size_t bytes);
  /// 32 hexadecimal digits, of what was added so far.
  std::string text() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

/// Of one piece of memory.
std::string checksumOf(const void *data, size_t bytes);
/// Of bytes [offset, offset + bytes) of a file.
std::string checksumOf(const File &file, uint64_t offset, uint64_t bytes);
/// Whether a text can be a checksum.
bool isChecksum(const std::string &text);

} // namespace tessera::rt
