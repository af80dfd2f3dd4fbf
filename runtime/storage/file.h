// Files by byte range: nothing is ever mapped or read whole, and a new file has its final name only once it
// is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tessera::rt {

/// An open file. Reads and writes are positional, so that threads may share one File. All errors are `Error`
/// and name the path.
class File {
public:
  /// Opens an existing regular file for reading.
  static File openRead(const std::string &path);
  /// Opens an existing file for reading and writing (a file that another rank has created).
  static File openWrite(const std::string &path);
  /// Creates the temporary file that `commitFile(path)` gives its final name; what is there must be a regular
  /// file, or nothing.
  static File createTemporary(const std::string &path);
  /// Creates the file, or empties it.
  static File create(const std::string &path);
  /// The same, for writes of whole blocks of `nvmeBlock` bytes (core/tier.h), from memory and to offsets that
  /// are multiples of it: they go past the system's cache (O_DIRECT) where the file system lets them.
  static File createDirect(const std::string &path);

  File(File &&other) noexcept;
  File &operator=(File &&other) noexcept;
  ~File();

  /// Bytes in the file now.
  uint64_t size() const;
  /// Reads exactly `bytes` bytes; a file that is too short is an error.
  void read(uint64_t offset, void *into, size_t bytes) const;
  /// Writes all of `bytes`.
  void write(uint64_t offset, const void *from, size_t bytes) const;
  /// Sets the size; new bytes are zero.
  void resize(uint64_t bytes) const;
  /// Brings everything written to the disk.
  void sync() const;
  const std::string &path() const { return name; }

private:
  File(int descriptor, std::string path) : fd(descriptor), name(std::move(path)) {}
  /// Whether what goes past the cache was refused, and goes through it from now on.
  bool leavesDirect() const;
  int fd = -1;
  std::string name;
};

/// The temporary name under which `path` is written, in the same folder and equal on all ranks.
std::string temporaryName(const std::string &path);

/// Gives the finished temporary file its final name, which lasts through a loss of power when this returns.
void commitFile(const std::string &path);

/// Registers the temporary file of `path` for removal if the process ends before `commitFile`: at
/// `removeUnfinishedFiles`, which the handlers of fatal signals call (it is async-signal-safe).
void registerUnfinished(const std::string &path);
/// The same of a file or folder that has its own temporary name; of a folder, once what is in it is gone.
void registerTemporary(const std::string &name);
/// It is no longer to be removed.
void forgetTemporary(const std::string &name);
void removeUnfinishedFiles() noexcept;

} // namespace tessera::rt
