// Where values lie in a pack.
#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeRange.h"

namespace tessera::dist {

/// Values of a pack begin at multiples of these bytes: what kernels require of their buffers.
inline constexpr int64_t kPackAlignment = 64;

/// Bytes of a local tensor, or of a copy of one.
int64_t bytesOf(mlir::Type type);
/// Where each value begins in a pack, or its block in one of `blocks` blocks, in bytes; and at last the bytes
/// of all, of one block.
llvm::SmallVector<int64_t> packOffsets(mlir::TypeRange types, int64_t blocks = 1);
/// The type of a pack of values of one element type.
mlir::RankedTensorType packedType(mlir::TypeRange types, int64_t blocks = 1);

} // namespace tessera::dist
