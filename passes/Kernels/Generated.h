// What becomes part of a generated kernel.
#ifndef TESSERA_PASSES_KERNELS_GENERATED_H
#define TESSERA_PASSES_KERNELS_GENERATED_H

#include "dialects/nn/Attributes.h"
#include "dialects/nn/Library.h"

namespace tessera {
/// Whether `op` can be lowered, is more than a view, and `library` does not compute it.
bool isGenerated(mlir::Operation *op, const nn::Library &library);
/// The type that a kernel has for an argument or a result of `type`: integers are without signs.
mlir::Type kernelType(mlir::Type type);
} // namespace tessera
#endif
