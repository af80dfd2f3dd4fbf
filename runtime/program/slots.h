// Several places in shared memory for the state that a training's steps change: each step reads one and
// leaves what it makes in the next, so that the last step's is whole whenever the process dies
// (docs/design/0013-slots.md).
#pragma once

#include "runtime/core/huge_pages.h"
#include "runtime/program/nvme_slots.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tessera::rt {

/// A file of slots, mapped: a rank's own, or what it keeps of another one's; and beside it one on NVMe, where
/// variables rest there. The state after step N lies in place N % places; what is on a device that is not the
/// host is brought there while step N + 1 is under way.
class Slots {
public:
  /// Opens the file, or makes it anew where it is not there, of other places, or not of `identity`: a text of
  /// what the places of variables depend on. All its bytes are reserved before any is used. `onNvme`: the
  /// path of what rests there; a file there is of use with the one that names it alone, and goes when that is
  /// made anew. Throws Error where there is no room, with both numbers, and where another process has it. The
  /// program must outlive this. `onHost`: whether its device is the host.
  Slots(const std::string &path, const std::string &identity, const Program &program, int places,
        const std::string &onNvme = "", bool onHost = true);
  /// The same of these ranges of the variables alone, none of which is on NVMe.
  Slots(const std::string &path, const std::string &identity, const Program &program, int places,
        const std::vector<VariableRange> &only);
  /// One that is there, to be read, whoever has it, with what it has on NVMe; null where there is none such.
  static std::unique_ptr<const Slots> read(const std::string &path, const std::string &identity,
                                           const Program &program);
  ~Slots();
  Slots(const Slots &) = delete;
  Slots &operator=(const Slots &) = delete;

  /// A step whose state is whole, and what was said of it.
  struct Step {
    int64_t step = 0;
    std::string text;
  };
  /// Those in the file.
  std::vector<Step> steps() const;

  /// Goes on from a step that is there.
  void take(int64_t step) { now = whole = step; }
  /// Goes on from one whose state is about to be filled in; nothing else is there any more.
  void fill(int64_t step);
  /// The state is filled in: it is whole, and `text` is what is said of it.
  void finishFill(const std::string &text) {
    say(now, text);
    whole = now;
  }
  /// Before the next step, or before its state is filled in: whoever reads the place where that goes finds
  /// none from now on. All ranks must have the state before it; where that is late, the one before that
  /// whole.
  void begin();
  /// Copies what the step does not leave elsewhere by itself; after begin().
  void copyAhead();
  /// The step is done: its state is what the next one begins with. Throws Error for a text that is too long.
  void commit(const std::string &text);
  /// Where the plan is late: during a step, by any thread, when the state that it began with has been saved.
  void saved();

  int places() const { return count; }
  /// The step after which the state is that of the current place.
  int64_t step() const { return now; }
  int placeOf(int64_t step) const { return int(step % count); }
  int current() const { return placeOf(now); }
  int next(int place) const { return (place + 1) % count; }
  /// Where byte `offset` of a tier's variables is in a place.
  void *address(Tier tier, int64_t offset, int place) const;
  /// Those bytes, as the host reads them: in their place, or in `buffer`.
  const void *read(const VariableRange &range, int place, std::vector<char> &buffer) const;
  /// What is on NVMe; null where no variable rests there.
  const NvmeSlots *nvme() const { return onDisk.get(); }
  const SlotPlan &plan() const { return slotPlan; }
  /// Whether a tier's variables are used where they lie in slots.
  bool holds(Tier tier) const { return tier != Tier::Device || onHost; }
  /// The pieces of its memory, in ascending order, none of which touches another.
  std::vector<std::pair<char *, int64_t>> pieces() const;
  /// What it takes of memory.
  int64_t bytes() const { return bytesOf(ranges()); }
  /// Of that, what is beside the one place that variables have anyway.
  int64_t bytesBeside() const {
    return bytes() - (onHost ? program.variablesEnd.device : 0) - program.variablesEnd.host;
  }
  const std::string &file() const { return inMemory->name(); }
  /// Removes the files; the memory stays until the end of this.
  void remove();

private:
  struct Header;
  struct Said;
  struct ToRead {};
  Slots(const std::string &path, const Program &program, ToRead);
  /// Finds what is of use in the files, or makes it; they are held by now.
  void open(const std::string &identity, const std::string &onNvme);
  bool find(const std::string &identity, const std::string &onNvme);
  void make(const std::string &identity, const std::string &onNvme);
  /// What is there may be of another folder of --nvme, of which nobody else knows.
  void forgetOnNvme(const std::string &except) const;
  /// Maps the file; null where that cannot be.
  Header *map(bool toWrite);
  FileRanges ranges() const;
  void reserve() const;
  void say(int64_t step, const std::string &text);
  Said &said(int64_t step) const;
  size_t fileBytes() const { return size_t(slotHeaderBytes + count * slotBytes(program)); }

  const Program &program;
  const bool onHost;
  const SlotPlan slotPlan;
  int count = 0;
  const std::optional<std::vector<VariableRange>> only;
  int64_t now = 0, whole = -1; ///< whole: the last step that is
  std::string late;            ///< what is to be said of the current one then
  std::unique_ptr<SlotFile> inMemory;
  std::unique_ptr<NvmeSlots> onDisk;
  char *memory = nullptr;
  std::optional<HugePages> huge;
};

} // namespace tessera::rt
