// Two places in shared memory for the state that a training's steps change: each step reads one and leaves
// what it makes in the other, so that the last step's is whole whenever the process dies
// (docs/design/0013-slots.md).
#pragma once

#include "runtime/program/slot_plan.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::rt {

/// A rank's file of slots, mapped. The state after step N lies in slot N % 2.
class Slots {
public:
  /// Opens the file, or makes it anew where it is not there, or not of `identity`: a text of what the places
  /// of variables depend on. All its bytes are reserved before any is used. Throws Error where there is no
  /// room, with both numbers, and where another process has it. The program must outlive this.
  Slots(const std::string &path, const std::string &identity, const Program &program);
  ~Slots();
  /// Whether such a file is there, as it was left.
  static bool isThere(const std::string &path, const std::string &identity, const Program &program);
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
  /// Before the next step: whoever reads the slot that it writes finds none from now on. All ranks must have
  /// the state before it.
  void begin();
  /// The step is done: its state is what the next one begins with. Throws Error for a text that is too long.
  void commit(const std::string &text);

  /// Which of the two the state is in.
  int current() const { return int(now % 2); }
  /// Where byte `offset` of a tier's variables is in a slot.
  void *address(Tier tier, int64_t offset, int slot) const;
  const SlotPlan &plan() const { return slotPlan; }
  /// What it takes, beside the one place that variables have anyway.
  int64_t bytesBeside() const { return reserved - program.variablesEnd.device - program.variablesEnd.host; }
  const std::string &file() const { return path; }
  /// Removes the file; the memory stays until the end of this.
  void remove();

private:
  struct Header;
  struct Said;
  void open(const std::string &identity);
  void reserve();
  void say(int64_t step, const std::string &text);
  Said &said(int64_t step) const;

  const std::string path;
  const Program &program;
  const SlotPlan slotPlan;
  int64_t reserved = 0, now = 0;
  int fd = -1;
  char *memory = nullptr;
};

} // namespace tessera::rt
