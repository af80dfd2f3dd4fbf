// The calls that the runtime computes on every device that it has.
#ifndef TESSERA_LIB_TARGET_COMMON_LIBRARYCALLS_H
#define TESSERA_LIB_TARGET_COMMON_LIBRARYCALLS_H

#include "dialects/nn/Library.h"

namespace tessera::target {

/// Whether the functions of runtime/device/cpu and runtime/device/cuda compute it, for its types and shapes:
/// products and attention of f32, bf16 and f16, all else of f32. runtime/cts/device tests both.
bool isRuntimeCall(const nn::LibraryCall &call);

/// A number among the call's attributes, which it must have.
int64_t numberOf(const nn::LibraryCall &call, llvm::StringRef name);

} // namespace tessera::target
#endif
