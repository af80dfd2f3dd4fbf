// Attention by cuDNN, in bf16 and f16.
#pragma once

#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/cuda/kernels/arguments.h"

namespace tessera::rt::cuda {

/// Attention as cuDNN does it, and its gradients: every query and key is valid, a causal mask has its
/// diagonal at the first of each. Null for what cuDNN does not take (f32, head sizes over 128 or no multiple
/// of 8, zig-zag order), or where there is none. A query whose every key a bias hides may get any result, and
/// is to have no lse of -infinity in the backward pass.
Work prepareAttentionGraph(CudaDevice &device, const AttentionArguments &arguments, bool backward);

} // namespace tessera::rt::cuda
