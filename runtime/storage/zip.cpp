// See zip.h. The format: PKWARE's APPNOTE 6.3, sections 4.3 to 4.5.
#include "runtime/storage/zip.h"

#include "runtime/core/error.h"

#include <algorithm>
#include <cstring>
#include <zlib.h>

namespace tessera::rt {
namespace {

/// Little-endian fields of a record, never read beyond its end.
class Record {
public:
  Record(const unsigned char *data, size_t bytes, const std::string &path)
      : data(data), bytes(bytes), path(path) {}
  uint64_t field(size_t at, int width) const {
    if (at > bytes || bytes - at < static_cast<size_t>(width))
      throw Error("'" + path + "' is a damaged zip archive: a record is cut short");
    uint64_t value = 0;
    for (int i = width - 1; i >= 0; --i)
      value = value << 8 | data[at + i];
    return value;
  }
  const unsigned char *data;
  size_t bytes;
  const std::string &path;
};

constexpr uint32_t endSignature = 0x06054b50, end64Signature = 0x06064b50, locator64Signature = 0x07064b50,
                   entrySignature = 0x02014b50, localSignature = 0x04034b50;
constexpr uint64_t maxDirectoryBytes = uint64_t(64) << 20;

struct Directory {
  uint64_t offset, bytes, count;
};

Directory findDirectory(const File &file) {
  // The end record is the last thing in the file but for a comment of at most 65535 bytes.
  uint64_t size = file.size();
  size_t tailBytes = std::min<uint64_t>(size, 65535 + 22 + 20);
  std::vector<unsigned char> tail(tailBytes);
  file.read(size - tailBytes, tail.data(), tailBytes);
  Record record(tail.data(), tailBytes, file.path());
  for (size_t at = tailBytes < 22 ? 0 : tailBytes - 22 + 1; at-- > 0;) {
    if (record.field(at, 4) != endSignature)
      continue;
    Directory directory{record.field(at + 16, 4), record.field(at + 12, 4), record.field(at + 10, 2)};
    if (at >= 20 && record.field(at - 20, 4) == locator64Signature) {
      uint64_t end64 = record.field(at - 20 + 8, 8);
      unsigned char big[56];
      if (end64 > size || size - end64 < sizeof(big))
        throw Error("'" + file.path() + "' is a damaged zip archive: its directory lies outside of it");
      file.read(end64, big, sizeof(big));
      Record record64(big, sizeof(big), file.path());
      if (record64.field(0, 4) != end64Signature)
        throw Error("'" + file.path() + "' is a damaged zip archive: its zip64 record is missing");
      directory = {record64.field(48, 8), record64.field(40, 8), record64.field(32, 8)};
    }
    if (directory.offset > size || directory.bytes > size - directory.offset ||
        directory.bytes > maxDirectoryBytes)
      throw Error("'" + file.path() + "' is a damaged zip archive: its directory lies outside of it");
    return directory;
  }
  throw Error("'" + file.path() + "' is not a zip archive");
}

/// Replaces the fields that did not fit into 32 bits by those of the zip64 extra field.
void applyZip64(const Record &record, size_t extra, size_t extraEnd, ZipMember &member) {
  while (extra + 4 <= extraEnd) {
    uint64_t id = record.field(extra, 2), length = record.field(extra + 2, 2);
    size_t at = extra + 4;
    if (id == 1)
      for (uint64_t *field : {&member.bytes, &member.compressedBytes, &member.headerOffset})
        if (*field == 0xffffffff) {
          *field = record.field(at, 8);
          at += 8;
        }
    extra += 4 + length;
  }
}

std::unique_ptr<ByteSource> openUnchecked(std::shared_ptr<File> file, const ZipMember &member,
                                          const std::string &where) {
  unsigned char local[30];
  uint64_t size = file->size();
  if (member.headerOffset > size || size - member.headerOffset < sizeof(local))
    throw Error(where + " lies outside of the archive");
  file->read(member.headerOffset, local, sizeof(local));
  Record record(local, sizeof(local), file->path());
  if (record.field(0, 4) != localSignature)
    throw Error(where + " has no header");
  uint64_t begin = member.headerOffset + sizeof(local) + record.field(26, 2) + record.field(28, 2);
  if (begin > size || member.compressedBytes > size - begin)
    throw Error(where + " lies outside of the archive");
  if (member.method == 0) {
    if (member.bytes != member.compressedBytes)
      throw Error(where + " is stored with two different sizes");
    return makeFileSource(std::move(file), begin, member.bytes);
  }
  if (member.method == 8)
    return makeInflateSource(std::move(file), begin, member.compressedBytes, member.bytes);
  throw Error(where + " uses compression method " + std::to_string(member.method) +
              "; stored and deflate are read");
}

uint32_t checksum(ByteSource &source) {
  std::vector<unsigned char> part(std::min<uint64_t>(source.size(), 1 << 20));
  uLong sum = crc32(0, nullptr, 0);
  for (uint64_t at = 0; at < source.size(); at += part.size()) {
    const uint64_t bytes = std::min<uint64_t>(part.size(), source.size() - at);
    source.read(at, part.data(), bytes);
    sum = crc32(sum, part.data(), static_cast<uInt>(bytes));
  }
  return static_cast<uint32_t>(sum);
}

} // namespace

std::vector<ZipMember> readZipDirectory(const File &file) {
  Directory directory = findDirectory(file);
  std::vector<unsigned char> data(directory.bytes);
  file.read(directory.offset, data.data(), data.size());
  Record record(data.data(), data.size(), file.path());
  std::vector<ZipMember> members;
  size_t at = 0;
  for (uint64_t i = 0; i < directory.count; ++i) {
    if (record.field(at, 4) != entrySignature)
      throw Error("'" + file.path() + "' is a damaged zip archive: directory entry " + std::to_string(i) +
                  " is missing");
    size_t nameBytes = record.field(at + 28, 2), extraBytes = record.field(at + 30, 2);
    size_t commentBytes = record.field(at + 32, 2);
    ZipMember member;
    uint64_t flags = record.field(at + 8, 2);
    member.method = static_cast<uint16_t>(record.field(at + 10, 2));
    member.crc = static_cast<uint32_t>(record.field(at + 16, 4));
    member.compressedBytes = record.field(at + 20, 4);
    member.bytes = record.field(at + 24, 4);
    member.headerOffset = record.field(at + 42, 4);
    size_t name = at + 46;
    if (nameBytes + extraBytes + commentBytes > data.size() - std::min(name, data.size()))
      throw Error("'" + file.path() + "' is a damaged zip archive: a directory entry is cut short");
    member.name.assign(reinterpret_cast<const char *>(data.data() + name), nameBytes);
    applyZip64(record, name + nameBytes, name + nameBytes + extraBytes, member);
    if (flags & 1)
      throw Error("'" + file.path() + "': member '" + member.name + "' is encrypted");
    members.push_back(std::move(member));
    at = name + nameBytes + extraBytes + commentBytes;
  }
  return members;
}

std::unique_ptr<ByteSource> openZipMember(std::shared_ptr<File> file, const ZipMember &member) {
  std::string where = "'" + file->path() + "': member '" + member.name + "'";
  std::unique_ptr<ByteSource> source = openUnchecked(std::move(file), member, where);
  if (checksum(*source) != member.crc)
    throw Error(where + " is damaged: its bytes do not have the checksum that the archive states; copy or "
                        "make the file again");
  return source;
}

} // namespace tessera::rt
