// See block_writer.h.
#include "runtime/storage/block_writer.h"

#include "runtime/core/tier.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace tessera::rt {

BlockWriter::BlockWriter(const std::string &path)
    : file(File::createDirect(path)),
      buffer(static_cast<char *>(std::aligned_alloc(nvmeBlock, bufferBytes)), std::free) {
  if (!buffer)
    throw std::bad_alloc();
}

void BlockWriter::add(const void *data, size_t bytes) {
  const auto *from = static_cast<const char *>(data);
  while (bytes > 0) {
    const size_t count = std::min(bytes, bufferBytes - filled);
    std::memcpy(buffer.get() + filled, from, count);
    filled += count;
    from += count;
    bytes -= count;
    if (filled < bufferBytes)
      continue;
    file.write(written, buffer.get(), filled);
    written += filled;
    filled = 0;
  }
}

// The last block is written whole, and the file cut to what was added.
void BlockWriter::finish() {
  const size_t whole = (filled + nvmeBlock - 1) / nvmeBlock * nvmeBlock;
  std::memset(buffer.get() + filled, 0, whole - filled);
  file.write(written, buffer.get(), whole);
  file.resize(written + filled);
  file.sync();
}

} // namespace tessera::rt
