// What other plans a model that does not fit would fit by.
#ifndef TESSERA_LIB_DRIVER_OTHERPLANS_H
#define TESSERA_LIB_DRIVER_OTHERPLANS_H

#include "lib/Driver/Compile.h"
#include <optional>

namespace tessera {

/// The least that it needs of the device whatever is moved or made again, without a word; none where it does
/// not compile, or needs no more than its cap.
std::optional<int64_t> leastDeviceOf(Compilation &compilation);

/// Runs phases. Where the plan is known to need more than --device-memory whatever is moved, and is a
/// recipe's: says the least that the model needs with more microbatches, with state in pieces and by twice
/// the ranks, where that is less, as far as a few seconds go.
mlir::LogicalResult runWithAdvice(Compilation &compilation, Phase last);

} // namespace tessera
#endif
