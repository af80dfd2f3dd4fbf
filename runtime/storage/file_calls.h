// The calls to the operating system that files and folders are made of, in one place, so that a test can let
// any of them fail.
#pragma once

#include <cstddef>
#include <string>
#include <sys/stat.h>
#include <sys/types.h>
#include <vector>

namespace tessera::rt {

/// The system's own calls, with its meaning and its errno. A test derives from it.
class FileCalls {
public:
  virtual ~FileCalls() = default;
  virtual int open(const char *path, int flags, unsigned mode);
  virtual int close(int fd);
  virtual ssize_t pread(int fd, void *into, size_t bytes, off_t offset);
  virtual ssize_t pwrite(int fd, const void *from, size_t bytes, off_t offset);
  virtual int ftruncate(int fd, off_t bytes);
  virtual int fsync(int fd);
  virtual int stat(const char *path, struct stat *info);
  virtual int fstat(int fd, struct stat *info);
  virtual int rename(const char *from, const char *to);
  /// Each gets the other's name, at once. ENOSYS or EINVAL where the system or the file system cannot.
  virtual int exchange(const char *one, const char *other);
  virtual int mkdir(const char *path, unsigned mode);
  virtual int unlink(const char *path);
  virtual int rmdir(const char *path);
  /// The names in a folder, without `.` and `..`, in no order.
  virtual int list(const char *path, std::vector<std::string> &names);
};

/// What files and folders call.
FileCalls &fileCalls();
/// For tests: calls others from now on, and returns those before; null means the system's own. They must
/// outlive all files that were opened by them.
FileCalls *replaceFileCalls(FileCalls *others);

} // namespace tessera::rt
