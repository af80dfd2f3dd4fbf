// The one piece of memory that the buffers of a rank's programs lie in.
#pragma once

#include "runtime/program/memory.h"

#include <vector>

namespace tessera::rt {

/// Variables lie at the bottom, at one place for all programs (parseDescription checks that). Above them
/// every program has its other buffers, all programs in the same bytes: one runs at a time, and what it
/// leaves there is gone when another one runs.
class Arena {
public:
  /// `programs`: those of one rank, at least one; `threads`: of a rank. All must outlive this.
  Arena(const std::vector<const Program *> &programs, int threads, CountingAllocator &allocator);
  ~Arena();
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;

  /// Where buffer `index` of `program`, one of those given, lies; null for -1.
  void *address(const Program &program, int64_t index) const;
  /// Where a variable lies; null for one that none of the programs has.
  void *variable(size_t index) const { return index < variables.size() ? variables[index] : nullptr; }

  /// What running `programs` in turns takes: this arena, and what is received ahead. Of one program it is
  /// Program::memoryFor.
  static MemoryFigures figures(const std::vector<const Program *> &programs, int threads);

private:
  const std::vector<const Program *> programs;
  const int threads;
  CountingAllocator &allocator;
  /// The first byte that no program's variable has.
  const int64_t variablesEnd;
  char *memory = nullptr, *workspace = nullptr;
  std::vector<void *> variables;
};

} // namespace tessera::rt
