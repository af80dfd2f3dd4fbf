// A file in memory that readers of paths can open.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace tessera::fuzz {

/// A file of its own in /dev/shm, removed at the end of the process.
class ScratchFile {
public:
  /// `name`: how the path ends.
  explicit ScratchFile(const std::string &name) {
    std::string pattern = "/dev/shm/tessera-fuzz-XXXXXX";
    folder = mkdtemp(pattern.data()) ? pattern : fail("mkdtemp");
    path = folder + "/" + name;
  }
  ScratchFile(const ScratchFile &) = delete;
  ~ScratchFile() {
    unlink(path.c_str());
    rmdir(folder.c_str());
  }
  const std::string &write(const uint8_t *data, size_t size) {
    int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || ::write(file, data, size) != static_cast<ssize_t>(size))
      fail("write");
    close(file);
    return path;
  }

private:
  [[noreturn]] static std::string fail(const char *what) {
    std::perror(what);
    std::exit(1);
  }
  std::string folder, path;
};

} // namespace tessera::fuzz
