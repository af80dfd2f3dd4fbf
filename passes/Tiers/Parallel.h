// Parts of the search that are done at the same time. Internal to it.
#ifndef TESSERA_PASSES_TIERS_PARALLEL_H
#define TESSERA_PASSES_TIERS_PARALLEL_H

#include <cstddef>
#include <functional>

namespace tessera::tiers {

/// Calls `body` with every number below `count`, in any order, by this thread and by others as far as the
/// process has processors for them: calls of several threads share these. `body` throws nothing.
void inParallel(size_t count, const std::function<void(size_t)> &body);

} // namespace tessera::tiers
#endif
