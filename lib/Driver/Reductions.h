// What is compiled to compare a plan in place of the whole.
#ifndef TESSERA_LIB_DRIVER_REDUCTIONS_H
#define TESSERA_LIB_DRIVER_REDUCTIONS_H

#include "lib/Driver/Shallow.h"

namespace tessera {

struct Verdict;

/// So many of a model's blocks and of a pipeline's microbatches; 0: all.
struct Reduction {
  size_t blocks = 0, turns = 0;
};

/// What of a candidate is compiled: with few and with more blocks, where `blocks` are given, and each of
/// those with few and with more microbatches, where `turns` are. Else all of them, once.
struct Reductions {
  std::optional<Depths> blocks, turns;

  size_t size() const { return (blocks ? 2 : 1) * (turns ? 2 : 1); }
  /// With fewer blocks before, then with fewer microbatches.
  Reduction operator[](size_t i) const;
  /// What is drawn from what was said of each, in order: of the first that does not compile, if there is one.
  Verdict draw(llvm::ArrayRef<Verdict> verdicts) const;
};

} // namespace tessera
#endif
