// Products by cuBLASLt, of f32 (no TF32), bf16 or f16, summed in f32.
#pragma once

#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/cuda/kernels/arguments.h"

#include <optional>

namespace tessera::rt::cuda {

/// Memory that the program has promised a product for scratch.
struct ProductWorkspace {
  void *memory = nullptr;
  int64_t bytes = 0;
};

/// A product that multiplies.
struct PreparedProduct {
  Work work;
  bool finished; ///< whether nothing is left to do to C (tsr_finish_product),
  bool summed;   ///< and to the sums (tsr_sum_operand)
};

/// The product as calls of cuBLASLt; empty where that is not there, or does not take these strides.
std::optional<PreparedProduct> prepareProduct(CudaDevice &device, const GemmArguments &arguments,
                                              const ProductWorkspace &workspace);

} // namespace tessera::rt::cuda
