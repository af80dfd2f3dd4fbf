// See folder.h.
#include "runtime/storage/folder.h"

#include "runtime/core/error.h"
#include "runtime/storage/file_calls.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/statvfs.h>

namespace tessera::rt {
namespace {

[[noreturn]] void failPath(const std::string &what, const std::string &path) {
  throw Error("cannot " + what + " '" + path + "': " + std::strerror(errno));
}

} // namespace

std::vector<std::string> createFolders(const std::string &path) {
  std::vector<std::string> created;
  std::filesystem::path folder;
  for (const std::filesystem::path &part : std::filesystem::path(path)) {
    folder /= part;
    if (fileCalls().mkdir(folder.c_str(), 0777) == 0) {
      created.push_back(folder.string());
      syncFolder(folderOf(created.back()));
      continue;
    }
    const int failed = errno;
    if (isFolder(folder.string()))
      continue;
    throw Error("cannot create the folder '" + path + "': " + std::strerror(failed));
  }
  return created;
}

void createFolder(const std::string &path) {
  if (fileCalls().mkdir(path.c_str(), 0777) != 0)
    failPath("create the folder", path);
}

std::vector<std::string> listFolder(const std::string &path) {
  std::vector<std::string> names;
  if (fileCalls().list(path.c_str(), names) != 0)
    failPath("read the folder", path);
  std::sort(names.begin(), names.end());
  return names;
}

bool pathExists(const std::string &path) {
  struct stat info;
  return fileCalls().stat(path.c_str(), &info) == 0;
}

bool isFolder(const std::string &path) {
  struct stat info;
  return fileCalls().stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

void renamePath(const std::string &from, const std::string &to) {
  if (fileCalls().rename(from.c_str(), to.c_str()) != 0)
    failPath("rename '" + from + "' to", to);
}

void exchangeFolders(const std::string &from, const std::string &to) {
  if (fileCalls().exchange(from.c_str(), to.c_str()) == 0)
    return;
  if (errno != ENOSYS && errno != EINVAL)
    failPath("exchange '" + from + "' and", to);
  const std::string aside = from + ".aside";
  renamePath(to, aside);
  syncFolder(folderOf(to));
  renamePath(from, to);
  syncFolder(folderOf(to));
  renamePath(aside, from);
}

void removeAll(const std::string &path) {
  if (fileCalls().unlink(path.c_str()) == 0 || errno == ENOENT)
    return;
  if (!isFolder(path))
    failPath("remove", path);
  for (const std::string &name : listFolder(path))
    removeAll(path + "/" + name);
  if (fileCalls().rmdir(path.c_str()) != 0)
    failPath("remove", path);
}

void syncFolder(const std::string &path) {
  int fd = fileCalls().open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (fd < 0 && errno == EACCES)
    return;
  if (fd < 0)
    failPath("open the folder", path);
  int failed = 0;
  while (fileCalls().fsync(fd) != 0 && (failed = errno) == EINTR) // as a signal interrupts it
    failed = 0;
  fileCalls().close(fd);
  errno = failed;
  if (failed != 0 && failed != EINVAL && failed != EROFS)
    failPath("write", path);
}

std::string folderOf(const std::string &path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

uint64_t freeBytes(const std::string &folder) {
  struct statvfs info;
  if (::statvfs(folder.c_str(), &info) != 0)
    failPath("examine", folder);
  return uint64_t(info.f_bavail) * uint64_t(info.f_frsize);
}

} // namespace tessera::rt
