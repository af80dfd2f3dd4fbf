// How large a tensor may be. Files state sizes; nobody checks products of them again after this.
#ifndef TESSERA_DIALECTS_NN_SIZE_H
#define TESSERA_DIALECTS_NN_SIZE_H

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/MathExtras.h"

namespace tessera::nn {

/// More elements than any machine holds, and few enough that bytes and sums of many of them fit int64.
constexpr int64_t maxElements = int64_t(1) << 48;

/// Whether `type`, where it is a tensor, has known sizes whose product is at most `maxElements`; sizes of 0
/// count as 1.
inline bool hasReasonableSize(mlir::Type type) {
  auto shaped = llvm::dyn_cast<mlir::ShapedType>(type);
  if (!shaped)
    return true;
  if (!shaped.hasRank())
    return false;
  int64_t elements = 1;
  for (int64_t size : shaped.getShape())
    if (size < 0 || llvm::MulOverflow(elements, std::max<int64_t>(size, 1), elements) ||
        elements > maxElements)
      return false;
  return true;
}

} // namespace tessera::nn
#endif
