// Token files: a stream of unsigned little-endian numbers, raw (nanoGPT) or after llm.c's header of 1024
// bytes.
#pragma once

#include "runtime/storage/bytes.h"

#include <cstdint>
#include <memory>
#include <string>

namespace tessera::rt {

/// Reads ranges of tokens as int64.
class TokenFile {
public:
  /// `tokenBytes` is 2 or 4. A file whose size is no multiple of it, or whose llm.c header disagrees, is an
  /// error.
  TokenFile(const std::string &path, int tokenBytes);

  int64_t count() const { return tokens; }
  const std::string &path() const { return name; }
  /// Tokens [first, first + n) into `into`.
  void read(int64_t first, int64_t n, int64_t *into);

private:
  std::string name;
  int tokenBytes;
  int64_t tokens = 0;
  std::unique_ptr<ByteSource> source;
};

} // namespace tessera::rt
