// See slot_file.h.
#include "runtime/program/slot_file.h"

#include "runtime/core/error.h"
#include "runtime/storage/folder.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <tuple>
#include <unistd.h>

namespace tessera::rt {
namespace {

bool isMine(int fd) {
  struct stat status = {};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == ::geteuid();
}

} // namespace

SlotFile::SlotFile(const std::string &path) : path(path) {
  fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0)
    fail("opened");
  std::string problem;
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0)
    problem = "' are another run's, which is under way";
  else if (!isMine(fd))
    problem = "' are another user's";
  if (problem.empty())
    return;
  ::close(fd);
  throw Error("slots '", path, problem);
}

SlotFile::SlotFile(const std::string &path, bool &isThere) : path(path) {
  fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  isThere = fd >= 0 && isMine(fd);
}

SlotFile::~SlotFile() {
  if (fd >= 0)
    ::close(fd);
}

size_t SlotFile::bytes() const {
  struct stat status = {};
  return ::fstat(fd, &status) == 0 ? size_t(status.st_size) : 0;
}

void SlotFile::renew(size_t bytes) const {
  if (::ftruncate(fd, 0) != 0 || ::ftruncate(fd, off_t(bytes)) != 0)
    fail("made");
}

void SlotFile::reserve(const FileRanges &ranges, const char *place, const char *remedy) const {
  for (const auto &[begin, end] : ranges) {
    const int status = ::posix_fallocate(fd, begin, end - begin);
    if (status == 0)
      continue;
    // It holds nothing of use, and memory.
    std::ignore = ::ftruncate(fd, 0);
    remove();
    const uint64_t free = freeBytes(folderOf(path));
    throw Error("slots take ", bytesOf(ranges), " bytes of ", place, "'", folderOf(path), "', where ", free,
                " are left there (", std::strerror(status), "); ", remedy);
  }
}

void SlotFile::fail(const char *what) const {
  throw Error("slots '", path, "' cannot be ", what, ": ", std::strerror(errno));
}

void SlotFile::remove() const { ::unlink(path.c_str()); }

} // namespace tessera::rt
