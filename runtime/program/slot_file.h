// A file that slots lie in, which the next process finds however this one ends.
#pragma once

#include "runtime/program/slot_layout.h"

#include <cstddef>
#include <string>

namespace tessera::rt {

class SlotFile {
public:
  /// Opens it, or makes an empty one. Throws Error where that cannot be, where another process or thread has
  /// it, and where it is another user's.
  explicit SlotFile(const std::string &path);
  /// One that is there, to be read, whoever has it: false where there is none of this user's.
  SlotFile(const std::string &path, bool &isThere);
  ~SlotFile();
  SlotFile(const SlotFile &) = delete;
  SlotFile &operator=(const SlotFile &) = delete;

  int descriptor() const { return fd; }
  const std::string &name() const { return path; }
  size_t bytes() const;
  /// Nothing of what was there is left, and what is there is zero.
  void renew(size_t bytes) const;
  /// Takes these bytes of memory or of the disk, so that they are there when they are used. Where there is no
  /// such room the file is removed, and the Error has both numbers. `place`: of memory or the disk, in words
  /// before the folder; `remedy`: what to do about it.
  void reserve(const FileRanges &ranges, const char *place, const char *remedy) const;
  /// Throws Error for what the system has just refused.
  [[noreturn]] void fail(const char *what) const;
  /// What is there goes when this and all others end that have it open.
  void remove() const;

private:
  const std::string path;
  int fd = -1;
};

} // namespace tessera::rt
