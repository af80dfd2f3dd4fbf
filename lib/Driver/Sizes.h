// One executable for several numbers of ranks.
#ifndef TESSERA_LIB_DRIVER_SIZES_H
#define TESSERA_LIB_DRIVER_SIZES_H

#include "lib/Driver/Compile.h"

namespace tessera {

/// Where the batch may be shared by other numbers of ranks (`dist.elastic`): compiles the model for each of
/// them, from where plans begin to matter, and adds what comes of it to the kernels of `compilation`, which
/// has been lowered, and to `allSizes`. Nothing to do for other programs.
mlir::LogicalResult addSizes(Compilation &compilation);

} // namespace tessera
#endif
