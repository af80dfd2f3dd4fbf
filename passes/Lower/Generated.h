// What becomes part of a generated kernel.
#ifndef TESSERA_PASSES_LOWER_GENERATED_H
#define TESSERA_PASSES_LOWER_GENERATED_H

#include "dialects/nn/NN.h"

namespace tessera {
/// Whether `op` can be lowered, is more than a view, and the library has no function for its types.
bool isGenerated(mlir::Operation *op, int64_t threads);
/// The type that a kernel has for an argument or a result of `type`: integers are without signs.
mlir::Type kernelType(mlir::Type type);

/// On an operator in a kernel: its results in bf16 or f16 are rounded inside of the kernel too, because a
/// decision depends on them.
inline constexpr llvm::StringLiteral kRounded = "nn.rounded";
} // namespace tessera
#endif
