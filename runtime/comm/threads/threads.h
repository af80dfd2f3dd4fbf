// Ranks that are threads of one process. A message is one copy from the sender's to the receiver's buffer.
#pragma once

#include "runtime/comm/transport.h"

#include <functional>

namespace tessera::rt {

/// Runs `body` for ranks 0 to ranks-1, rank 0 in the calling thread, and returns when all have ended. When
/// one throws, the waits of the others end, and the first error is thrown here, naming the rank (an
/// AgreedError as it is).
void runThreads(int ranks, const std::function<void(Transport &)> &body);

} // namespace tessera::rt
