// See folder.h.
#include "runtime/checkpoint/folder.h"

#include "runtime/checkpoint/checksum.h"
#include "runtime/core/error.h"
#include "runtime/storage/file.h"
#include "runtime/storage/folder.h"
#include "runtime/storage/safetensors.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tessera::rt {
namespace {

constexpr std::string_view prefix = "step-", oneFile = ".safetensors";
constexpr const char *removedSuffix = ".removed", *partialSuffix = ".partial", *asideSuffix = ".aside";
constexpr uint64_t maxManifestBytes = uint64_t(1) << 30;

/// The step in a name `step-DIGITS`, or -1.
int64_t stepOf(std::string_view name) {
  if (!name.starts_with(prefix))
    return -1;
  int64_t step = -1;
  const char *last = name.data() + name.size();
  auto [stop, error] = std::from_chars(name.data() + prefix.size(), last, step);
  return error == std::errc() && stop == last ? step : -1;
}

} // namespace

std::string checkpointPath(const std::string &folder, int64_t step) {
  char name[40];
  std::snprintf(name, sizeof(name), "/step-%09lld", (long long)step);
  return folder + name;
}

std::vector<CheckpointEntry> checkpointsIn(const std::string &folder) {
  std::vector<CheckpointEntry> found;
  for (const std::string &name : listFolder(folder)) {
    const bool isFile = std::string_view(name).ends_with(oneFile);
    const int64_t step =
        stepOf(std::string_view(name).substr(0, name.size() - (isFile ? oneFile.size() : 0)));
    if (step >= 0)
      found.push_back({step, folder + "/" + name, isFile});
  }
  std::sort(found.begin(), found.end(), [](const CheckpointEntry &a, const CheckpointEntry &b) {
    return std::tuple(-a.step, a.isOneFile, a.path) < std::tuple(-b.step, b.isOneFile, b.path);
  });
  return found;
}

Manifest readManifest(const std::string &path) {
  const std::string name = path + "/" + manifestName;
  File file = File::openRead(name);
  const uint64_t bytes = file.size();
  if (bytes > maxManifestBytes)
    throw Error("'", name, "' has ", bytes, " bytes, a manifest has at most ", maxManifestBytes);
  std::string text(size_t(bytes), '\0');
  file.read(0, text.data(), text.size());
  Manifest manifest = parseManifest(text, "'" + name + "'");
  for (const StoredFile &stored : manifest.files) {
    const std::string part = path + "/" + stored.name;
    const uint64_t there = File::openRead(part).size();
    if (there != stored.bytes)
      throw Error("'", part, "' has ", there, " bytes, the manifest of the checkpoint says ", stored.bytes);
  }
  return manifest;
}

void checkPieces(const Manifest &manifest, const std::string &path, int64_t first, int64_t count) {
  std::vector<std::unique_ptr<File>> files(manifest.files.size());
  auto open = [&](size_t file) -> const File & {
    if (!files[file])
      files[file] = std::make_unique<File>(File::openRead(path + "/" + manifest.files[file].name));
    return *files[file];
  };
  int64_t number = 0;
  for (size_t i = 0; i < manifest.files.size(); ++i) {
    const StoredFile &stored = manifest.files[i];
    if (number++ % count == first && checksumOf(open(i), 0, stored.headerBytes) != stored.headerChecksum)
      throw Error("'", path, "/", stored.name,
                  "' is damaged: its header does not have the checksum of the manifest");
  }
  for (const StoredVariable &variable : manifest.variables)
    for (const StoredPiece &piece : variable.pieces)
      if (number++ % count == first &&
          checksumOf(open(piece.file), piece.offset, variable.bytesOf(piece)) != piece.checksum)
        throw Error("'", path, "/", manifest.files[piece.file].name, "' is damaged: tensor '", variable.name,
                    "' does not have the checksum of the manifest");
}

void checkCheckpoint(const CheckpointEntry &entry) {
  if (entry.isOneFile)
    SafetensorsReader reader(entry.path);
  else
    checkPieces(readManifest(entry.path), entry.path);
}

FolderLock::FolderLock(const std::string &folder) : path(folder + "/lock") {
  while (!take()) {
  }
}

/// False where the file went away between the two calls.
bool FolderLock::take() {
  fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0)
    throw Error("cannot create '", path, "': ", std::strerror(errno));
  struct flock whole = {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (::fcntl(fd, F_OFD_SETLK, &whole) == 0) {
    struct stat ours, there;
    if (::fstat(fd, &ours) == 0 && ::stat(path.c_str(), &there) == 0 && ours.st_ino == there.st_ino)
      return true;
    ::close(fd);
    return false;
  }
  const int failed = errno;
  ::close(fd);
  fd = -1;
  if (failed == EAGAIN || failed == EACCES)
    throw Error("the folder '", folderOf(path),
                "' is in use: another run writes its checkpoints there (it holds '", path,
                "'); end it, or give another folder");
  // Some file systems have no locks: then the user answers for it.
  if (failed != ENOLCK && failed != ENOTSUP && failed != EINVAL && failed != ENOSYS)
    throw Error("cannot lock '", path, "': ", std::strerror(failed));
  return true;
}

FolderLock::~FolderLock() {
  if (fd < 0)
    return;
  ::unlink(path.c_str());
  ::close(fd);
}

void removeCheckpoint(const CheckpointEntry &entry) {
  const std::string removed = entry.path + removedSuffix;
  removeAll(removed);
  renamePath(entry.path, removed);
  syncFolder(folderOf(entry.path));
  removeAll(removed);
}

std::vector<CheckpointEntry> removeOld(const std::vector<CheckpointEntry> &whole, const KeepRule &rule) {
  std::vector<CheckpointEntry> removed;
  for (size_t i = size_t(rule.newest); i < whole.size(); ++i)
    if (rule.every == 0 || whole[i].step % rule.every != 0) {
      removeCheckpoint(whole[i]);
      removed.push_back(whole[i]);
    }
  return removed;
}

void removeUnfinished(const std::string &folder) {
  // Where a folder cannot take another's place at once, the one that goes is aside for a moment.
  const std::string aside = std::string(partialSuffix) + asideSuffix;
  for (const std::string &name : listFolder(folder))
    if (std::string_view text(name); text.starts_with(prefix) && text.ends_with(aside)) {
      const std::string place = folder + "/" + name.substr(0, name.size() - aside.size());
      if (!pathExists(place))
        renamePath(folder + "/" + name, place);
    }
  for (const std::string &name : listFolder(folder))
    for (const char *suffix : {partialSuffix, removedSuffix, asideSuffix})
      if (std::string_view text(name); text.starts_with(prefix) && text.ends_with(suffix)) {
        removeAll(folder + "/" + name);
        break;
      }
}

} // namespace tessera::rt
