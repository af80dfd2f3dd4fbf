// Which of several places every operation of a training step finds a variable in, where a step leaves what it
// makes beside what it was made of (docs/design/0013-slots.md).
#pragma once

#include "runtime/program/description.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tessera::rt {

/// Bytes of a tier's variables.
struct VariableRange {
  Tier tier = Tier::Device;
  int64_t begin = 0, end = 0;
};

/// A variable that one operation alone changes, an optimizer's update or a copy from the device, is read
/// where the last step has left it, and written elsewhere. One that is changed otherwise is copied before the
/// step, and then used in its new place by all. What a step changes not at all has one place.
/// Variables on a device whose memory is not the host's have one place there, and are saved in the slots
/// while the next step is under way, before it changes them.
class SlotPlan {
public:
  /// The program must outlive this. `onHost`: whether its device is the host.
  explicit SlotPlan(const Program &program, bool onHost = true);

  /// Whether a step changes what lies in the buffer; else it has one place.
  bool changes(int64_t buffer) const;
  /// Whether operation number `op` uses the buffer, of what changes, where the step leaves it.
  bool usesNext(size_t op, int64_t buffer) const;
  /// Whether the operation reads what it changes in one place and writes it in the other.
  bool isApart(size_t op) const;

  /// What a step changes, of each tier in ascending order; and what of it is copied before the step.
  const std::vector<VariableRange> &changed() const { return changedRanges; }
  const std::vector<VariableRange> &copied() const { return copiedRanges; }
  /// What is saved, by the operation before which it has to be: those that overlap an earlier one's are not
  /// in it.
  const std::map<size_t, std::vector<VariableRange>> &saved() const { return savedRanges; }
  /// Whether the next step saves what a step has changed, so that its slot is whole only then; and whether
  /// others of its variables are left in the slot by the step itself.
  bool isLate() const { return !savedRanges.empty(); }
  bool isMixed() const { return isLate() && leavesOthers; }

private:
  struct Variable {
    VariableRange range;
    enum { Unchanged, Apart, Copied, Saved } how = Unchanged;
    size_t writer = 0; ///< of Apart; the first of Saved
  };

  void addVariables();
  void findWriters();
  /// Copies what an operation uses together with what is copied; whether anything is new.
  bool spread();
  /// The first of those that lie in the buffer; null where none does.
  const Variable *firstIn(int64_t buffer) const;

  void addRanges();

  const Program &program;
  const bool onHost;
  bool leavesOthers = false;
  std::vector<Variable> variables;
  std::vector<std::vector<size_t>> inBuffer; ///< by buffer: the variables that share bytes with it
  std::vector<VariableRange> changedRanges, copiedRanges;
  std::map<size_t, std::vector<VariableRange>> savedRanges;
};

} // namespace tessera::rt
