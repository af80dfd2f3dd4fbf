// See token_file.h. llm.c's header: 256 int32 {magic, version, number of tokens, 0...}.
#include "runtime/storage/token_file.h"

#include "runtime/core/error.h"

#include <algorithm>

namespace tessera::rt {
namespace {

struct LlmcFormat {
  int32_t magic, version;
  int tokenBytes;
};
constexpr LlmcFormat llmcFormats[] = {{20240520, 1, 2}, {20240801, 7, 4}};
constexpr uint64_t llmcHeaderBytes = 1024;

} // namespace

TokenFile::TokenFile(const std::string &path, int tokenBytes) : name(path), tokenBytes(tokenBytes) {
  auto file = std::make_shared<File>(File::openRead(path));
  uint64_t size = file->size(), base = 0;
  if (size >= llmcHeaderBytes) {
    int32_t header[3];
    file->read(0, header, sizeof(header));
    for (const LlmcFormat &format : llmcFormats) {
      if (header[0] != format.magic || header[1] != format.version)
        continue;
      if (format.tokenBytes != tokenBytes)
        throw Error("'" + path + "' holds tokens of " + std::to_string(format.tokenBytes) +
                    " bytes (llm.c header); give --token-type " + (format.tokenBytes == 2 ? "u16" : "u32"));
      uint64_t expected = llmcHeaderBytes + uint64_t(static_cast<uint32_t>(header[2])) * tokenBytes;
      if (size != expected)
        throw Error("'" + path + "' has " + std::to_string(size) + " bytes, its llm.c header says " +
                    std::to_string(expected));
      base = llmcHeaderBytes;
    }
  }
  if ((size - base) % tokenBytes != 0)
    throw Error("'" + path + "' has " + std::to_string(size) + " bytes, no multiple of the " +
                std::to_string(tokenBytes) + " bytes of a token (see --token-type)");
  tokens = static_cast<int64_t>((size - base) / tokenBytes);
  source = makeFileSource(std::move(file), base, size - base);
}

void TokenFile::read(int64_t first, int64_t n, int64_t *into) {
  unsigned char buffer[8192];
  const int64_t atOnce = sizeof(buffer) / tokenBytes;
  for (int64_t done = 0; done < n; done += atOnce) {
    int64_t part = std::min(atOnce, n - done);
    source->read(uint64_t(first + done) * tokenBytes, buffer, size_t(part) * tokenBytes);
    for (int64_t i = 0; i < part; ++i) {
      const unsigned char *token = buffer + i * tokenBytes;
      int64_t value = token[0] | int64_t(token[1]) << 8;
      if (tokenBytes == 4)
        value |= int64_t(token[2]) << 16 | int64_t(token[3]) << 24;
      into[done + i] = value;
    }
  }
}

} // namespace tessera::rt
