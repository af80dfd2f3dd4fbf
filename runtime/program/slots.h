// Several places in shared memory for the state that a training's steps change: each step reads one and
// leaves what it makes in the next, so that the last step's is whole whenever the process dies
// (docs/design/0013-slots.md).
#pragma once

#include "runtime/core/huge_pages.h"
#include "runtime/program/slot_plan.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tessera::rt {

/// A file of slots, mapped: a rank's own, or what it keeps of another one's. The state after step N lies in
/// place N % places.
class Slots {
public:
  /// Opens the file, or makes it anew where it is not there, of other places, or not of `identity`: a text of
  /// what the places of variables depend on. All its bytes are reserved before any is used: those of a rank's
  /// own slots, or if `only` is given of these ranges alone. Throws Error where there is no room, with both
  /// numbers, and where another process has it. The program must outlive this.
  Slots(const std::string &path, const std::string &identity, const Program &program, int places,
        std::optional<std::vector<VariableRange>> only = {});
  /// One that is there, to be read, whoever has it; null where there is none such.
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
  void take(int64_t step) { now = step; }
  /// Goes on from one whose state is about to be filled in; nothing else is there any more.
  void fill(int64_t step);
  /// It is filled in.
  void settle(const std::string &text) { say(now, text); }
  /// Before the next step, or before its state is filled in: whoever reads the place where that goes finds
  /// none from now on. All ranks must have the state before it.
  void begin();
  /// Copies what the step does not leave elsewhere by itself; after begin().
  void copyAhead();
  /// The step is done: its state is what the next one begins with. Throws Error for a text that is too long.
  void commit(const std::string &text);

  int places() const { return count; }
  /// The step after which the state is that of the current place.
  int64_t step() const { return now; }
  int placeOf(int64_t step) const { return int(step % count); }
  int current() const { return placeOf(now); }
  int next(int place) const { return (place + 1) % count; }
  /// Where byte `offset` of a tier's variables is in a place.
  void *address(Tier tier, int64_t offset, int place) const;
  const SlotPlan &plan() const { return slotPlan; }
  /// What it takes of memory.
  int64_t bytes() const { return reserved; }
  const std::string &file() const { return path; }
  /// Removes the file; the memory stays until the end of this.
  void remove();

private:
  struct Header;
  struct Said;
  struct ToRead {};
  Slots(const std::string &path, const Program &program, ToRead);
  void open(const std::string &identity);
  /// Maps the file; null where that cannot be.
  Header *map(bool toWrite);
  void reserve();
  void say(int64_t step, const std::string &text);
  Said &said(int64_t step) const;
  size_t fileBytes() const { return size_t(slotHeaderBytes + count * slotBytes(program)); }

  const std::string path;
  const Program &program;
  const SlotPlan slotPlan;
  int count = 0;
  const std::optional<std::vector<VariableRange>> only;
  int64_t reserved = 0, now = 0;
  int fd = -1;
  char *memory = nullptr;
  std::optional<HugePages> huge;
};

} // namespace tessera::rt
