// How a strided copy becomes launches of the library's kernel.
#pragma once

#include "runtime/device/copy_dimensions.h"
#include "runtime/device/cuda/kernels/arguments.h"

#include <vector>

namespace tessera::rt::cuda {

/// Launches that copy elements of `bytes` together, in the widest units that the dimensions and addresses
/// allow, up to `most` of them each. `dims`: merged, at most maxDimensions. Nothing for an empty copy.
std::vector<CopyArguments> copyLaunches(std::vector<CopyDimension> dims, const void *source, void *target,
                                        int64_t bytes, int64_t most = INT32_MAX);

} // namespace tessera::rt::cuda
