// Where values lie in a pack.
#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeRange.h"

namespace tessera::dist {

/// Values of a pack begin at multiples of these bytes: what kernels require of their buffers.
inline constexpr int64_t kPackAlignment = 64;

/// Bytes of a local tensor.
int64_t bytesOf(mlir::Type type);
/// Where each value of a pack begins, in bytes, and at last the bytes of all.
llvm::SmallVector<int64_t> packOffsets(mlir::TypeRange types);
/// The type of a pack of values of one element type.
mlir::RankedTensorType packedType(mlir::TypeRange types);

} // namespace tessera::dist
