// The part of slots that rests on NVMe: a file with a name in the folder of --nvme, which has all that the
// program keeps there (docs/design/0013-slots.md).
#pragma once

#include "runtime/device/nvme_file.h"
#include "runtime/program/slot_file.h"

#include <cstdint>
#include <memory>
#include <string>

namespace tessera::rt {

/// Whose it is says a stamp, a number that is drawn when it is made: who wants to go on from it has to know
/// that.
class NvmeSlots {
public:
  /// Opens the file, of so many places, or makes an empty one. Throws as SlotFile. Has no bytes until
  /// find() or make(). The program must outlive this.
  NvmeSlots(const std::string &path, const Program &program, int places);
  /// One that is there, to be read, whoever has it; null where there is none of this stamp.
  static std::unique_ptr<NvmeSlots> read(const std::string &path, const Program &program, int places,
                                         uint64_t stamp);

  /// Whether it has the stamp; then its bytes are there.
  bool find(uint64_t stamp);
  /// Takes all its bytes of the disk, zeroed; they have a new stamp, which this returns. Throws Error with
  /// both numbers where there is no room.
  uint64_t make();

  /// Where byte `offset` of the variables is in a place, and the first of what lies behind them: addresses
  /// that file() alone copies from and to.
  char *address(int64_t offset, int place) const;
  char *rest() const { return address(0, places); }
  const std::shared_ptr<const NvmeFile> &file() const { return bytesOfFile; }
  /// Copies a range of the variables from one place to another.
  void copy(const VariableRange &range, int from, int to) const;
  /// What it takes of the disk.
  MemoryFigures figures() const { return nvmeFigures(program, places); }
  const std::string &name() const { return disk.name(); }
  void remove() const { disk.remove(); }

private:
  NvmeSlots(const std::string &path, const Program &program, int places, bool &isThere);
  FileRanges ranges() const { return nvmeFileRanges(program, places); }
  size_t fileBytes() const;
  /// Whether it is whole, by its size, and of the stamp.
  bool isOf(uint64_t stamp) const;
  void use();

  const Program &program;
  const int places;
  const SlotFile disk;
  std::shared_ptr<const NvmeFile> bytesOfFile;
};

} // namespace tessera::rt
