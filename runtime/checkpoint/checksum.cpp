// See checksum.h. The library is its header alone: executables need nothing more.
#include "runtime/checkpoint/checksum.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h> // NOLINT(misc-include-cleaner)

namespace tessera::rt {

struct Checksum::State {
  XXH3_state_t of;
};

Checksum::Checksum() : state(std::make_unique<State>()) { XXH3_128bits_reset(&state->of); }
Checksum::~Checksum() = default;

void Checksum::add(const void *data, size_t bytes) { XXH3_128bits_update(&state->of, data, bytes); }

std::string Checksum::text() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state->of);
  char digits[33];
  std::snprintf(digits, sizeof(digits), "%016llx%016llx", (unsigned long long)hash.high64,
                (unsigned long long)hash.low64);
  return digits;
}

std::string checksumOf(const void *data, size_t bytes) {
  Checksum sum;
  sum.add(data, bytes);
  return sum.text();
}

std::string checksumOf(const File &file, uint64_t offset, uint64_t bytes) {
  Checksum sum;
  std::vector<char> buffer(size_t(std::min<uint64_t>(bytes, uint64_t(1) << 20)));
  for (uint64_t done = 0; done < bytes; done += buffer.size()) {
    const auto part = size_t(std::min<uint64_t>(buffer.size(), bytes - done));
    file.read(offset + done, buffer.data(), part);
    sum.add(buffer.data(), part);
  }
  return sum.text();
}

bool isChecksum(const std::string &text) {
  return text.size() == 32 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

} // namespace tessera::rt
