// The central directory of a zip archive: where its members lie. For .npz files.
#pragma once

#include "runtime/storage/bytes.h"

#include <memory>
#include <string>
#include <vector>

namespace tessera::rt {

/// A member of an archive; `method` is 0 (stored) or 8 (deflated).
struct ZipMember {
  std::string name;
  uint16_t method = 0;
  uint64_t compressedBytes = 0;
  uint64_t bytes = 0;
  uint64_t headerOffset = 0;
  uint32_t crc = 0; ///< of the unpacked bytes
};

/// Lists the members of the archive (also a zip64 one). Encrypted members and archives of several files are
/// errors.
std::vector<ZipMember> readZipDirectory(const File &file);

/// The unpacked bytes of a member. Reads it whole once, to compare its checksum: bytes that were changed are
/// an error.
std::unique_ptr<ByteSource> openZipMember(std::shared_ptr<File> file, const ZipMember &member);

} // namespace tessera::rt
