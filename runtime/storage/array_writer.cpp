// See array_writer.h.
#include "runtime/storage/array_writer.h"

#include "runtime/storage/elements.h"

#include <algorithm>
#include <cstring>

namespace tessera::rt {

void writeLocal(const File &file, uint64_t offset, DType fileType, const Layout &layout,
                const std::optional<Flat> &flat, const Mesh &mesh, const Coordinates &coordinates, DType type,
                const void *data) {
  constexpr int64_t bufferBytes = 65536;
  std::vector<char> packed, buffer;
  int64_t bytes = dtypeBytes(type), fileBytes = dtypeBytes(fileType);
  forEachRun(layout, flat, mesh, coordinates, false, [&](const Run &run) {
    const char *from = static_cast<const char *>(data) + run.memory * bytes;
    uint64_t at = offset + uint64_t(run.file * fileBytes);
    if (type == fileType && run.stride == 1)
      return file.write(at, from, size_t(run.count * bytes));
    packed.resize(bufferBytes);
    buffer.resize(bufferBytes);
    const int64_t atOnce = bufferBytes / std::max(bytes, fileBytes);
    for (int64_t done = 0; done < run.count; done += atOnce) {
      int64_t part = std::min(atOnce, run.count - done);
      for (int64_t i = 0; i < part; ++i)
        std::memcpy(packed.data() + i * bytes, from + (done + i) * run.stride * bytes, size_t(bytes));
      convertElements(type, packed.data(), fileType, buffer.data(), part, 1);
      file.write(at + uint64_t(done * fileBytes), buffer.data(), size_t(part * fileBytes));
    }
  });
}

} // namespace tessera::rt
