// See file.h.
#include "runtime/storage/file.h"

#include "runtime/core/error.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace tessera::rt {
namespace {

[[noreturn]] void fail(const std::string &what, const std::string &path) {
  throw Error("cannot " + what + " '" + path + "': " + std::strerror(errno));
}

// Paths that a signal handler may have to remove: fixed memory, because a handler must not allocate.
constexpr size_t maxUnfinished = 16;
char unfinished[maxUnfinished][4096];
std::atomic<bool> unfinishedUsed[maxUnfinished];

/// Brings the names in the folder of `path` to the disk: a rename lasts through a loss of power only then. A
/// folder that may be written but not read cannot be opened, and is left to the system.
void syncFolderOf(const std::string &path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return;
  const int failed = ::fsync(fd) != 0 ? errno : 0;
  ::close(fd);
  errno = failed;
  if (failed != 0 && failed != EINVAL && failed != EROFS)
    fail("write", folder);
}

} // namespace

File File::openRead(const std::string &path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe would wait for a writer
  if (fd < 0)
    fail("open", path);
  File file(fd, path);
  struct stat info;
  if (::fstat(fd, &info) != 0)
    fail("examine", path);
  if (!S_ISREG(info.st_mode))
    throw Error("cannot read '" + path + "': not a regular file");
  return file;
}

File File::openWrite(const std::string &path) {
  int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0)
    fail("open for writing", path);
  return File(fd, path);
}

File File::createTemporary(const std::string &path) {
  struct stat info;
  // The rename would put a file in the place of a device, a pipe or a folder.
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    throw Error("cannot write '" + path + "': it exists and is not a regular file");
  registerUnfinished(path);
  return create(temporaryName(path));
}

File File::create(const std::string &path) {
  int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0)
    fail("create", path);
  return File(fd, path);
}

File::File(File &&other) noexcept : fd(other.fd), name(std::move(other.name)) { other.fd = -1; }

File &File::operator=(File &&other) noexcept {
  std::swap(fd, other.fd);
  std::swap(name, other.name);
  return *this;
}

File::~File() {
  if (fd >= 0)
    ::close(fd);
}

uint64_t File::size() const {
  struct stat info;
  if (::fstat(fd, &info) != 0)
    fail("examine", name);
  return static_cast<uint64_t>(info.st_size);
}

void File::read(uint64_t offset, void *into, size_t bytes) const {
  auto *to = static_cast<char *>(into);
  while (bytes > 0) {
    ssize_t got = ::pread(fd, to, bytes, static_cast<off_t>(offset));
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
    ssize_t put = ::pwrite(fd, data, bytes, static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0)
      fail("write", name);
    data += put;
    offset += static_cast<uint64_t>(put);
    bytes -= static_cast<size_t>(put);
  }
}

void File::resize(uint64_t bytes) const {
  if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0)
    fail("write", name);
}

void File::sync() const {
  // Some file systems (pipes, /dev/null) cannot; they have nothing to bring to a disk either.
  if (::fsync(fd) != 0 && errno != EINVAL && errno != EROFS)
    fail("write", name);
}

std::string temporaryName(const std::string &path) { return path + ".partial"; }

void commitFile(const std::string &path) {
  std::string temporary = temporaryName(path);
  if (::rename(temporary.c_str(), path.c_str()) != 0)
    fail("rename '" + temporary + "' to", path);
  for (size_t i = 0; i < maxUnfinished; ++i)
    if (unfinishedUsed[i] && temporary == unfinished[i])
      unfinishedUsed[i] = false;
  syncFolderOf(path);
}

void registerUnfinished(const std::string &path) {
  std::string temporary = temporaryName(path);
  if (temporary.size() >= sizeof(unfinished[0]))
    return;
  for (size_t i = 0; i < maxUnfinished; ++i)
    if (!unfinishedUsed[i]) {
      std::memcpy(unfinished[i], temporary.c_str(), temporary.size() + 1);
      unfinishedUsed[i] = true;
      return;
    }
}

void removeUnfinishedFiles() noexcept {
  for (size_t i = 0; i < maxUnfinished; ++i)
    if (unfinishedUsed[i].exchange(false))
      ::unlink(unfinished[i]);
}

std::vector<std::string> createFolders(const std::string &path) {
  std::vector<std::string> created;
  std::error_code error;
  std::filesystem::path folder;
  for (const std::filesystem::path &part : std::filesystem::path(path)) {
    folder /= part;
    if (std::filesystem::create_directory(folder, error))
      created.push_back(folder.string());
    if (error)
      throw Error("cannot create the folder '" + path + "': " + error.message());
  }
  return created;
}

} // namespace tessera::rt
