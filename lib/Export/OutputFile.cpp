// See OutputFile.h.
#include "lib/Export/OutputFile.h"
#include "lib/Import/MappedFile.h"
#include "llvm/Support/Signals.h"
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace tessera {

OutputFile::OutputFile(std::string path) : path(std::move(path)) {
  temporary = this->path + ".tmp" + std::to_string(getpid());
  fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0)
    error = errno;
  else
    llvm::sys::RemoveFileOnSignal(temporary);
}

OutputFile::~OutputFile() {
  if (fd >= 0)
    ::close(fd);
  if (!published)
    ::unlink(temporary.c_str());
  llvm::sys::DontRemoveFileOnSignal(temporary);
}

void OutputFile::write(llvm::StringRef bytes) {
  while (!bytes.empty() && !error) {
    ssize_t n = ::write(fd, bytes.data(), std::min<size_t>(bytes.size(), 1 << 26));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0) {
      error = n == 0 ? EIO : errno;
      return;
    }
    bytes = bytes.drop_front(n);
    written += n;
  }
}

void OutputFile::write(const Bytes &bytes) {
  for (llvm::StringRef rest = bytes.data; !rest.empty() && !error;) {
    llvm::StringRef chunk = rest.take_front(1 << 24);
    write(chunk);
    if (bytes.mapped)
      MappedFile::release(chunk);
    rest = rest.drop_front(chunk.size());
  }
}

void OutputFile::zeros(size_t count) {
  static const char block[4096] = {};
  for (; count && !error; count -= std::min(count, sizeof block))
    write({block, std::min(count, sizeof block)});
}

bool OutputFile::finish() {
  if (fd < 0)
    return !error;
  if (!error && fsync(fd) != 0)
    error = errno;
  if (::close(fd) != 0 && !error)
    error = errno;
  fd = -1;
  return !error;
}

bool OutputFile::publish() {
  if (!finish())
    return false;
  if (std::rename(temporary.c_str(), path.c_str()) != 0)
    error = errno;
  published = !error;
  return published;
}

std::string OutputFile::problem() const { return "cannot write '" + path + "': " + std::strerror(error); }

} // namespace tessera
