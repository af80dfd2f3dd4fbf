// A stretch of bytes that can be read from any position: part of a file, or a compressed member of an
// archive.
#pragma once

#include "runtime/storage/file.h"

#include <memory>
#include <vector>

namespace tessera::rt {

/// Bytes [0, size()) of something stored. Not for use by two threads at once.
class ByteSource {
public:
  virtual ~ByteSource() = default;
  virtual uint64_t size() const = 0;
  /// Reads bytes [offset, offset + bytes). Fastest when offsets ascend. Beyond the end is an error.
  virtual void read(uint64_t offset, void *into, size_t bytes) = 0;
};

/// Bytes [base, base + length) of a file; small reads go through a window, so that strided ones are not one
/// system call an element.
std::unique_ptr<ByteSource> makeFileSource(std::shared_ptr<File> file, uint64_t base, uint64_t length);

/// The `length` bytes that the raw deflate stream at [base, base + compressed) of a file unpacks to. Reading
/// backwards starts again from the beginning.
std::unique_ptr<ByteSource> makeInflateSource(std::shared_ptr<File> file, uint64_t base, uint64_t compressed,
                                              uint64_t length);

} // namespace tessera::rt
