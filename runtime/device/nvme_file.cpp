// See nvme_file.h.
#include "runtime/device/nvme_file.h"

#include "runtime/core/error.h"
#include "runtime/core/tier.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace tessera::rt {
namespace {

/// A file that has no name, or has lost it again.
int openUnnamed(const std::string &folder) {
  int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
    return fd;
  std::string name = folder + "/tessera-XXXXXX";
  fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd >= 0)
    ::unlink(name.c_str());
  return fd;
}

int64_t freeBytes(const std::string &folder) {
  struct statvfs info;
  return ::statvfs(folder.c_str(), &info) == 0 ? int64_t(info.f_bavail) * int64_t(info.f_frsize) : 0;
}

int64_t inBlocks(int64_t bytes) { return (bytes + nvmeBlock - 1) / nvmeBlock * nvmeBlock; }

} // namespace

NvmeFile::NvmeFile(const std::string &folder, int64_t bytes)
    : folder(folder), size(inBlocks(std::max<int64_t>(bytes, 1))) {
  cached = openUnnamed(folder);
  if (cached < 0)
    throw Error("cannot keep ", bytes, " bytes on NVMe, in '", folder, "': ", std::strerror(errno),
                "; --nvme DIR:SIZE names another folder");
  int failed = ::fallocate(cached, 0, 0, off_t(size)) == 0 ? 0 : errno;
  if (failed == EOPNOTSUPP)
    failed = ::posix_fallocate(cached, 0, off_t(size));
  if (failed != 0) {
    ::close(cached);
    throw Error("a rank keeps ", bytes, " bytes on NVMe, in '", folder, "', which has ", freeBytes(folder),
                " bytes free: ", std::strerror(failed), "; --nvme DIR:SIZE names another folder");
  }
  prepare();
}

NvmeFile::NvmeFile(const std::string &folder, int fd, int64_t size) : folder(folder), size(size) {
  cached = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (cached < 0)
    throw Error("cannot keep ", size, " bytes on NVMe, in '", folder, "': ", std::strerror(errno),
                "; --nvme DIR:SIZE names another folder");
  prepare();
}

void NvmeFile::prepare() {
  // Where the file system refuses, all goes through the cache.
  std::string again = "/proc/self/fd/" + std::to_string(cached);
  direct = ::open(again.c_str(), (::fcntl(cached, F_GETFL) & O_ACCMODE) | O_DIRECT | O_CLOEXEC);
  void *reserved =
      ::mmap(nullptr, size_t(size), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) {
    const int problem = errno;
    ::close(direct);
    ::close(cached);
    throw Error("cannot reserve addresses for ", size, " bytes on NVMe: ", std::strerror(problem));
  }
  begin = static_cast<char *>(reserved);
}

NvmeFile::~NvmeFile() {
  if (begin)
    ::munmap(begin, size_t(size));
  if (direct >= 0)
    ::close(direct);
  if (cached >= 0)
    ::close(cached);
}

void NvmeFile::copy(void *to, const void *from, int64_t bytes) const {
  if (bytes == 0)
    return;
  bool isWrite = contains(to);
  const char *place = isWrite ? static_cast<const char *>(to) : static_cast<const char *>(from);
  // Memory that is written from is only read.
  char *memory = isWrite ? const_cast<char *>(static_cast<const char *>(from)) : static_cast<char *>(to);
  transfer(isWrite, memory, place - begin, bytes);
}

// What is no whole block goes through the cache, which the system keeps in step with the rest.
void NvmeFile::transfer(bool isWrite, char *memory, int64_t offset, int64_t bytes) const {
  bool isAligned = offset % nvmeBlock == 0 && reinterpret_cast<uintptr_t>(memory) % nvmeBlock == 0;
  int64_t past = direct >= 0 && isAligned ? bytes / nvmeBlock * nvmeBlock : 0;
  transferAll(direct, isWrite, memory, offset, past);
  transferAll(cached, isWrite, memory + past, offset + past, bytes - past);
}

void NvmeFile::transferAll(int fd, bool isWrite, char *memory, int64_t offset, int64_t bytes) const {
  constexpr int64_t most = int64_t(1) << 30; // of one call
  while (bytes > 0) {
    size_t part = size_t(std::min(bytes, most));
    ssize_t done =
        isWrite ? ::pwrite(fd, memory, part, off_t(offset)) : ::pread(fd, memory, part, off_t(offset));
    if (done < 0 && errno == EINTR)
      continue;
    // Some file systems refuse it only now.
    if (done < 0 && errno == EINVAL && fd == direct)
      return transferAll(cached, isWrite, memory, offset, bytes);
    if (done <= 0)
      throw Error("cannot ", isWrite ? "write to" : "read from", " NVMe, a file in '", folder,
                  "': ", done < 0 ? std::strerror(errno) : "it has ended");
    memory += done, offset += done, bytes -= done;
  }
}

} // namespace tessera::rt
