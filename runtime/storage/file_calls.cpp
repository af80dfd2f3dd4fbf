// See file_calls.h.
#include "runtime/storage/file_calls.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

namespace tessera::rt {
namespace {

FileCalls &systemCalls() {
  static FileCalls calls;
  return calls;
}

FileCalls *replaced = nullptr;

} // namespace

int FileCalls::open(const char *path, int flags, unsigned mode) { return ::open(path, flags, mode); }
int FileCalls::close(int fd) { return ::close(fd); }
ssize_t FileCalls::pread(int fd, void *into, size_t bytes, off_t offset) {
  return ::pread(fd, into, bytes, offset);
}
ssize_t FileCalls::pwrite(int fd, const void *from, size_t bytes, off_t offset) {
  return ::pwrite(fd, from, bytes, offset);
}
int FileCalls::ftruncate(int fd, off_t bytes) { return ::ftruncate(fd, bytes); }
int FileCalls::fsync(int fd) { return ::fsync(fd); }
int FileCalls::stat(const char *path, struct stat *info) { return ::stat(path, info); }
int FileCalls::fstat(int fd, struct stat *info) { return ::fstat(fd, info); }
int FileCalls::rename(const char *from, const char *to) { return ::rename(from, to); }
int FileCalls::exchange(const char *one, const char *other) {
  return ::renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE);
}
int FileCalls::mkdir(const char *path, unsigned mode) { return ::mkdir(path, mode); }
int FileCalls::unlink(const char *path) { return ::unlink(path); }
int FileCalls::rmdir(const char *path) { return ::rmdir(path); }

int FileCalls::list(const char *path, std::vector<std::string> &names) {
  DIR *folder = ::opendir(path);
  if (!folder)
    return -1;
  errno = 0;
  while (const dirent *entry = ::readdir(folder)) {
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0)
      names.emplace_back(entry->d_name);
    errno = 0;
  }
  const int failed = errno;
  ::closedir(folder);
  errno = failed;
  return failed ? -1 : 0;
}

FileCalls &fileCalls() { return replaced ? *replaced : systemCalls(); }

FileCalls *replaceFileCalls(FileCalls *others) {
  FileCalls *before = replaced;
  replaced = others;
  return before;
}

} // namespace tessera::rt
