// Equal runs in a list, such as the blocks of a transformer.
#ifndef TESSERA_PASSES_ASSIGN_FOLD_H
#define TESSERA_PASSES_ASSIGN_FOLD_H

#include <cstddef>
#include <vector>

namespace tessera {

/// `times` times what `inner` says, or one element.
struct Folded {
  size_t times = 1;
  std::vector<Folded> inner;
  /// The first that it stands for, and how many.
  size_t element = 0, count = 1;
};

/// From the left: where a run repeats itself at once, the repetition that covers most, of those the shortest
/// run; runs are folded in turn. Elements are equal whose keys are. Takes time n^2 at worst.
std::vector<Folded> foldRepeats(const std::vector<int> &keys);

} // namespace tessera
#endif
