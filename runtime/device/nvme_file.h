// The tier below the host's memory: a file without a name, which ends with the process however that ends, or
// one that whoever opened it gives a name, for the process that comes after.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::rt {

/// Its bytes have addresses, so that places in it are handed around like any other; nothing can be read or
/// written there but by copy(). Copies may be made by several threads.
class NvmeFile {
public:
  /// Takes `bytes` of the disk at once, zeroed, so that it cannot be full later. Throws Error where the
  /// folder is none, may not be written, or has not as much.
  NvmeFile(const std::string &folder, int64_t bytes);
  /// Of a file that somebody has open, who has taken its bytes of the disk: `size`, whole blocks, counted
  /// from its beginning. It may be closed there; nothing is written where it was opened to be read.
  NvmeFile(const std::string &folder, int fd, int64_t size);
  ~NvmeFile();
  NvmeFile(const NvmeFile &) = delete;
  NvmeFile &operator=(const NvmeFile &) = delete;

  char *address() const { return begin; }
  /// Copies between a place of the file and memory, whichever `to` and `from` are. The disk's cache is
  /// bypassed where the folder's file system can do that, and where both places begin at multiples of
  /// `nvmeBlock`. Throws Error, which names the folder, when the disk fails.
  void copy(void *to, const void *from, int64_t bytes) const;

private:
  void prepare();
  bool contains(const void *place) const { return place >= begin && place < begin + size; }
  void transfer(bool isWrite, char *memory, int64_t offset, int64_t bytes) const;
  void transferAll(int fd, bool isWrite, char *memory, int64_t offset, int64_t bytes) const;

  const std::string folder;
  int64_t size;
  int cached = -1, direct = -1; ///< the file, twice: through the system's cache and past it
  char *begin = nullptr;
};

} // namespace tessera::rt
