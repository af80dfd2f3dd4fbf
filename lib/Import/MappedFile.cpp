// Maps files, and keeps external data inside the model's folder.
#include "lib/Import/MappedFile.h"
#include "lib/Import/ImportError.h"
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fs = std::filesystem;
using llvm::Twine;

namespace tessera {

std::shared_ptr<MappedFile> MappedFile::open(const std::string &path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe would wait for a writer
  if (fd < 0)
    throw ImportError("cannot open '" + Twine(path) + "': " + std::strerror(errno));
  struct stat info;
  bool regular = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  void *begin = nullptr;
  if (regular && info.st_size > 0)
    begin = mmap(nullptr, info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  int failure = errno;
  close(fd);
  if (!regular)
    throw ImportError("'" + Twine(path) + "' is not a regular file");
  if (begin == MAP_FAILED)
    throw ImportError("cannot map '" + Twine(path) + "': " + std::strerror(failure));
  return std::shared_ptr<MappedFile>(new MappedFile(static_cast<const char *>(begin), info.st_size));
}

MappedFile::~MappedFile() {
  if (size)
    munmap(const_cast<char *>(begin), size);
}

void MappedFile::release(llvm::StringRef part) {
  uintptr_t page = sysconf(_SC_PAGESIZE), first = reinterpret_cast<uintptr_t>(part.begin()) / page * page;
  if (!part.empty())
    madvise(reinterpret_cast<void *>(first), reinterpret_cast<uintptr_t>(part.end()) - first, MADV_DONTNEED);
}

std::string resolveExternalData(const std::string &folder, llvm::StringRef location, bool mayBeAbsent) {
  auto refuse = [&](const Twine &why) {
    return ImportError("external data '" + location + "' " + why +
                       "; the model may name only files in its own folder");
  };
  fs::path relative(location.str());
  if (location.empty())
    throw refuse("has no name");
  if (auto [name, rest] = location.split('\0'); name.size() != location.size())
    throw ImportError("external data '" + name +
                      "' goes on behind a NUL, where the names of files end; write the file's name alone");
  if (relative.is_absolute())
    throw refuse("is an absolute path");
  for (const fs::path &part : relative)
    if (part == "..")
      throw refuse("leaves the folder by '..'");
  std::error_code error;
  fs::path root = fs::canonical(folder.empty() ? fs::path(".") : fs::path(folder), error);
  if (error)
    throw ImportError("cannot resolve the folder '" + Twine(folder) + "': " + error.message());
  // Of an absent file the part of its path that exists is resolved; a link to nowhere is not absent.
  bool isAbsent =
      mayBeAbsent && fs::symlink_status(root / relative, error).type() == fs::file_type::not_found;
  fs::path file =
      isAbsent ? fs::weakly_canonical(root / relative, error) : fs::canonical(root / relative, error);
  if (error)
    throw ImportError("cannot open external data '" + location + "' in '" + root.string() +
                      "': " + error.message());
  auto mismatch = std::mismatch(root.begin(), root.end(), file.begin(), file.end());
  if (mismatch.first != root.end())
    throw refuse("is a link to '" + Twine(file.string()) + "' outside of it; copy the file there");
  return isAbsent ? "" : file.string();
}

} // namespace tessera
