// See bytes.h.
#include "runtime/storage/bytes.h"

#include "runtime/core/error.h"

#include <algorithm>
#include <cstring>
#include <zlib.h>

namespace tessera::rt {
namespace {

constexpr size_t windowBytes = size_t(1) << 16;

class FileSource : public ByteSource {
public:
  FileSource(std::shared_ptr<File> file, uint64_t base, uint64_t length)
      : file(std::move(file)), base(base), length(length) {}

  uint64_t size() const override { return length; }

  void read(uint64_t offset, void *into, size_t bytes) override {
    if (offset > length || bytes > length - offset)
      throw Error("cannot read '" + file->path() + "': data ends at byte " + std::to_string(length) +
                  " of the array, byte " + std::to_string(offset + bytes) + " is wanted");
    if (bytes >= windowBytes / 4)
      return file->read(base + offset, into, bytes);
    if (offset < start || offset + bytes > start + window.size()) {
      start = offset;
      window.resize(std::min<uint64_t>(windowBytes, length - offset));
      file->read(base + start, window.data(), window.size());
    }
    std::memcpy(into, window.data() + (offset - start), bytes);
  }

private:
  std::shared_ptr<File> file;
  uint64_t base, length;
  uint64_t start = 0;
  std::vector<char> window;
};

class InflateSource : public ByteSource {
public:
  InflateSource(std::shared_ptr<File> file, uint64_t base, uint64_t compressed, uint64_t length)
      : file(std::move(file)), base(base), compressed(compressed), length(length), input(windowBytes) {
    // Negative window bits: a raw deflate stream, as zip archives hold it.
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
      throw Error("cannot unpack '" + this->file->path() + "': zlib does not start");
  }
  ~InflateSource() override { inflateEnd(&stream); }

  uint64_t size() const override { return length; }

  void read(uint64_t offset, void *into, size_t bytes) override {
    if (offset > length || bytes > length - offset)
      throw Error("cannot read '" + file->path() + "': the array ends early");
    if (offset < produced)
      rewind();
    char skipped[4096];
    while (produced < offset)
      produce(skipped, std::min<uint64_t>(sizeof(skipped), offset - produced));
    produce(into, bytes);
  }

private:
  void rewind() {
    inflateReset(&stream);
    stream.avail_in = 0;
    consumed = produced = 0;
  }

  void produce(void *into, size_t bytes) {
    auto *to = static_cast<Bytef *>(into);
    while (bytes > 0) {
      if (stream.avail_in == 0 && consumed < compressed) {
        auto part = static_cast<uInt>(std::min<uint64_t>(input.size(), compressed - consumed));
        file->read(base + consumed, input.data(), part);
        consumed += part;
        stream.next_in = reinterpret_cast<Bytef *>(input.data());
        stream.avail_in = part;
      }
      auto part = static_cast<uInt>(std::min<size_t>(bytes, size_t(1) << 30));
      stream.next_out = to;
      stream.avail_out = part;
      int status = inflate(&stream, Z_NO_FLUSH);
      size_t got = part - stream.avail_out;
      if ((status != Z_OK && status != Z_STREAM_END) ||
          (got == 0 && stream.avail_in == 0 && consumed == compressed) ||
          (got == 0 && status == Z_STREAM_END))
        throw Error("cannot unpack '" + file->path() + "': the compressed data is damaged or too short");
      to += got;
      bytes -= got;
      produced += got;
    }
  }

  std::shared_ptr<File> file;
  uint64_t base, compressed, length;
  uint64_t consumed = 0, produced = 0;
  std::vector<char> input;
  z_stream stream{};
};

} // namespace

std::unique_ptr<ByteSource> makeFileSource(std::shared_ptr<File> file, uint64_t base, uint64_t length) {
  return std::make_unique<FileSource>(std::move(file), base, length);
}

std::unique_ptr<ByteSource> makeInflateSource(std::shared_ptr<File> file, uint64_t base, uint64_t compressed,
                                              uint64_t length) {
  return std::make_unique<InflateSource>(std::move(file), base, compressed, length);
}

} // namespace tessera::rt
