// Convolutions by cuDNN, in f32 throughout (no TF32).
#pragma once

#include "runtime/device/cpu/conv_shape.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/cuda/kernels/arguments.h"

namespace tessera::rt::cuda {

enum class ConvKind { Forward, BackwardData, BackwardWeights };

/// Memory that the program has promised a convolution for scratch.
struct ConvWorkspace {
  void *memory = nullptr;
  int64_t bytes = 0;
};

/// The convolution of the arguments as calls of cuDNN; `bias`: what the forward one adds, or where the
/// gradient of the bias goes. Empty where there is no cuDNN, or it has no algorithm that gives the same bits
/// each time in so much workspace.
Work prepareConvolution(CudaDevice &device, ConvKind kind, const cpu::ConvShape &shape,
                        const ConvArguments &arguments, float *bias, const ConvWorkspace &workspace);

} // namespace tessera::rt::cuda
