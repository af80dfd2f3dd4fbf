// What becomes part of a generated kernel.
#ifndef TESSERA_PASSES_LOWER_GENERATED_H
#define TESSERA_PASSES_LOWER_GENERATED_H

#include "dialects/nn/Attributes.h"

namespace tessera {
/// Whether `op` can be lowered, is more than a view, and the library has no function for its types.
bool isGenerated(mlir::Operation *op, int64_t threads);
/// The type that a kernel has for an argument or a result of `type`: integers are without signs.
mlir::Type kernelType(mlir::Type type);
} // namespace tessera
#endif
