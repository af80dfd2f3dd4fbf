// What cuBLASLt does with a product beside multiplying.
#pragma once

#include "runtime/device/cuda/kernels/arguments.h"
#include "runtime/device/cuda/product_shape.h"

namespace tessera::rt::cuda {

struct BlasEpilogue {
  uint32_t kind;              ///< of blas::EpilogueKind
  const void *bias = nullptr; ///< a bias; or what gets the sums of a factor
  void *aux = nullptr;        ///< pre-activations, which lie as the result does
  bool finished, summed;      ///< whether nothing is left to do to C, and to the sums
};

/// The product alone.
BlasEpilogue plainEpilogue(const GemmArguments &arguments);
/// As much as cuBLASLt has an epilogue for. Not all of its algorithms, or none, have each.
BlasEpilogue fusedEpilogue(const GemmArguments &arguments, const BlasProduct &shape);

} // namespace tessera::rt::cuda
