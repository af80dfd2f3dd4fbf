// See read_pieces.h.
#include "runtime/checkpoint/read_pieces.h"

#include "runtime/storage/elements.h"

#include <algorithm>
#include <vector>

namespace tessera::rt {

std::shared_ptr<File> PieceReader::file(size_t index) {
  std::shared_ptr<File> &opened = files[index];
  if (!opened)
    opened = std::make_shared<File>(File::openRead(path + "/" + manifest.files[index].name));
  return opened;
}

void PieceReader::read(const StoredVariable &variable, DType type, const Block &block, void *into) {
  constexpr int64_t atOnce = 16384;
  const int64_t fileBytes = dtypeBytes(variable.dtype), bytes = dtypeBytes(type);
  std::vector<char> buffer;
  for (const StoredPiece &stored : variable.pieces) {
    std::unique_ptr<ByteSource> source;
    forEachCommonRun(block, Block(stored.piece), [&](int64_t to, int64_t from, int64_t count) {
      if (!source)
        source = makeFileSource(file(stored.file), stored.offset, variable.bytesOf(stored));
      char *target = static_cast<char *>(into) + to * bytes;
      if (type == variable.dtype)
        return source->read(uint64_t(from * fileBytes), target, size_t(count * fileBytes));
      buffer.resize(size_t(atOnce * fileBytes));
      for (int64_t done = 0; done < count; done += atOnce) {
        const int64_t part = std::min(atOnce, count - done);
        source->read(uint64_t((from + done) * fileBytes), buffer.data(), size_t(part * fileBytes));
        convertElements(variable.dtype, buffer.data(), type, target + done * bytes, part, 1);
      }
    });
  }
}

} // namespace tessera::rt
