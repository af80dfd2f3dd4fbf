// The one piece of memory of each tier that the buffers of a rank's programs lie in.
#pragma once

#include "runtime/program/memory.h"
#include "runtime/program/slots.h"

#include <vector>

namespace tessera::rt {

/// In each tier variables lie at the bottom, at one place for all programs (parseDescription checks that).
/// Above them every program has its other buffers, all programs in the same bytes: one runs at a time, and
/// what it leaves there is gone when another one runs.
class Arena {
public:
  /// `programs`: those of one rank, at least one; `threads`: of a rank; the allocators of the tiers. All must
  /// outlive this. Of a tier below the device where no program has memory none is allocated. `slots`: where
  /// the one program's variables lie, and what else it has on NVMe where some rest there; or null.
  Arena(const std::vector<const Program *> &programs, int threads,
        const PerTier<CountingAllocator *> &allocators, const Slots *slots = nullptr);
  ~Arena();
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;

  /// Where buffer `index` of `program`, one of those given, lies; null for -1. `slot`: which of two, of what
  /// lies in slots and is changed.
  void *address(const Program &program, int64_t index, int slot = 0) const;
  /// Where byte `offset` of a tier's variables lies, of a tier whose variables are not in slots.
  void *addressOf(Tier tier, int64_t offset) const { return memory[tier] + offset; }
  /// Where a variable lies, with the state that the next step begins with; null for one that none of the
  /// programs has.
  void *variable(size_t index) const;
  /// The tier of one that some program has.
  Tier tierOf(size_t index) const { return variables[index].tier; }

  /// What running `programs` in turns takes of a tier: this arena, and on the device what is received ahead.
  /// Of one program it is Program::memoryFor.
  static MemoryFigures figures(const std::vector<const Program *> &programs, int threads,
                               Tier tier = Tier::Device);

private:
  const std::vector<const Program *> programs;
  const int threads;
  PerTier<CountingAllocator *> allocators;
  const Slots *slots;
  void findVariables();

  /// The first byte that no program's variable has.
  PerTier<int64_t> variablesEnd;
  /// How many of the first bytes, those of variables in slots, are not in `memory`.
  PerTier<int64_t> elsewhere;
  PerTier<char *> memory;
  char *workspace = nullptr;
  struct VariablePlace {
    const Program *program = nullptr; ///< one that has it, null where none does
    int64_t buffer = 0;
    Tier tier = Tier::Device;
  };
  std::vector<VariablePlace> variables;
};

} // namespace tessera::rt
