// See file.h.
#include "runtime/storage/file.h"

#include "runtime/core/error.h"
#include "runtime/storage/file_calls.h"
#include "runtime/storage/folder.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tessera::rt {
namespace {

[[noreturn]] void fail(const std::string &what, const std::string &path) {
  throw Error("cannot " + what + " '" + path + "': " + std::strerror(errno));
}

// Paths that a signal handler may have to remove: fixed memory, because a handler must not allocate.
constexpr size_t maxUnfinished = 64;
char unfinished[maxUnfinished][4096];
std::atomic<bool> unfinishedUsed[maxUnfinished];

/// Opens a file, again as long as a signal interrupts it.
int open(const std::string &path, int flags) {
  int fd = -1;
  while ((fd = fileCalls().open(path.c_str(), flags | O_CLOEXEC, 0666)) < 0 && errno == EINTR) {
  }
  return fd;
}

} // namespace

File File::openRead(const std::string &path) {
  int fd = open(path, O_RDONLY | O_NONBLOCK); // a pipe would wait for a writer
  if (fd < 0)
    fail("open", path);
  File file(fd, path);
  struct stat info;
  if (fileCalls().fstat(fd, &info) != 0)
    fail("examine", path);
  if (!S_ISREG(info.st_mode))
    throw Error("cannot read '" + path + "': not a regular file");
  return file;
}

File File::openWrite(const std::string &path) {
  int fd = open(path, O_RDWR);
  if (fd < 0)
    fail("open for writing", path);
  return File(fd, path);
}

File File::createTemporary(const std::string &path) {
  struct stat info;
  // The rename would put a file in the place of a device, a pipe or a folder.
  if (fileCalls().stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    throw Error("cannot write '" + path + "': it exists and is not a regular file");
  registerUnfinished(path);
  return create(temporaryName(path));
}

File File::create(const std::string &path) {
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC);
  if (fd < 0)
    fail("create", path);
  return File(fd, path);
}

File File::createDirect(const std::string &path) {
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_DIRECT);
  if (fd < 0 && errno != EINVAL)
    fail("create", path);
  return fd < 0 ? create(path) : File(fd, path);
}

bool File::leavesDirect() const {
  const int error = errno, flags = ::fcntl(fd, F_GETFL);
  const bool leaves = flags >= 0 && (flags & O_DIRECT) && ::fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0;
  errno = leaves ? 0 : error;
  return leaves;
}

File::File(File &&other) noexcept : fd(other.fd), name(std::move(other.name)) { other.fd = -1; }

File &File::operator=(File &&other) noexcept {
  std::swap(fd, other.fd);
  std::swap(name, other.name);
  return *this;
}

File::~File() {
  if (fd >= 0)
    fileCalls().close(fd);
}

uint64_t File::size() const {
  struct stat info;
  if (fileCalls().fstat(fd, &info) != 0)
    fail("examine", name);
  return static_cast<uint64_t>(info.st_size);
}

void File::read(uint64_t offset, void *into, size_t bytes) const {
  auto *to = static_cast<char *>(into);
  while (bytes > 0) {
    ssize_t got = fileCalls().pread(fd, to, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      fail("read", name);
    if (got == 0)
      throw Error("cannot read '" + name + "': it ends at byte " + std::to_string(offset) + ", " +
                  std::to_string(bytes) + " bytes early");
    to += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<size_t>(got);
  }
}

void File::write(uint64_t offset, const void *from, size_t bytes) const {
  auto *data = static_cast<const char *>(from);
  while (bytes > 0) {
    ssize_t put = fileCalls().pwrite(fd, data, bytes, static_cast<off_t>(offset));
    if (put < 0 && (errno == EINTR || (errno == EINVAL && leavesDirect())))
      continue;
    if (put < 0)
      fail("write", name);
    if (put == 0) // nothing is written and nothing said of why
      throw Error("cannot write '" + name + "': no byte of " + std::to_string(bytes) + " is taken");
    data += put;
    offset += static_cast<uint64_t>(put);
    bytes -= static_cast<size_t>(put);
  }
}

void File::resize(uint64_t bytes) const {
  while (fileCalls().ftruncate(fd, static_cast<off_t>(bytes)) != 0)
    if (errno != EINTR)
      fail("write", name);
}

void File::sync() const {
  // Some file systems (pipes, /dev/null) cannot; they have nothing to bring to a disk either.
  while (fileCalls().fsync(fd) != 0) {
    if (errno == EINVAL || errno == EROFS)
      return;
    if (errno != EINTR)
      fail("write", name);
  }
}

std::string temporaryName(const std::string &path) { return path + ".partial"; }

void commitFile(const std::string &path) {
  std::string temporary = temporaryName(path);
  if (fileCalls().rename(temporary.c_str(), path.c_str()) != 0)
    fail("rename '" + temporary + "' to", path);
  forgetTemporary(temporary);
  syncFolder(folderOf(path));
}

void registerUnfinished(const std::string &path) { registerTemporary(temporaryName(path)); }

void registerTemporary(const std::string &name) {
  if (name.size() >= sizeof(unfinished[0]))
    return;
  for (size_t i = 0; i < maxUnfinished; ++i)
    if (bool free = false; unfinishedUsed[i].compare_exchange_strong(free, true)) {
      std::memcpy(unfinished[i], name.c_str(), name.size() + 1);
      return;
    }
}

void forgetTemporary(const std::string &name) {
  for (size_t i = 0; i < maxUnfinished; ++i)
    if (unfinishedUsed[i] && name == unfinished[i])
      unfinishedUsed[i] = false;
}

void removeUnfinishedFiles() noexcept {
  for (size_t i = 0; i < maxUnfinished; ++i)
    if (unfinishedUsed[i])
      ::unlink(unfinished[i]); // which leaves folders
  for (size_t i = 0; i < maxUnfinished; ++i)
    if (unfinishedUsed[i].exchange(false))
      ::rmdir(unfinished[i]);
}

} // namespace tessera::rt
