// Matrix product calls in normal form, shared by the two ways of computing them: oneDNN and the library's own
// kernels.
#pragma once

#include "runtime/device/cpu/functions.h"
#include "runtime/device/cpu/kernels/kernels.h"

#include <array>

namespace tessera::rt::cpu {

/// One batch dimension. Those with c = 0 are summed over.
struct BatchDim {
  int64_t size, a, b, c;
};

/// C[m,n] = activation(A[m,k] B[k,n] + (accumulate ? C : 0) + bias[n]) + residual, by strides.
struct Product {
  int64_t m, n, k;
  std::array<int64_t, 2> a, b, c;
  std::vector<BatchDim> batch, summed;
  bool accumulate, bias, residual;
  Activation activation;
  Element type, resultType; ///< of A and B; of C, bias and residual

  int64_t items() const;
  int64_t terms() const;
};

/// The buffers of one call, offsets applied.
struct ProductArgs {
  const void *a, *b, *bias, *residual;
  void *c;
  char *workspace;
};

/// Element `offset` of `data`.
inline const void *at(const void *data, Element type, int64_t offset) {
  return static_cast<const char *>(data) + offset * bytesOf(type);
}
inline void *at(void *data, Element type, int64_t offset) {
  return static_cast<char *>(data) + offset * bytesOf(type);
}

/// Offsets (in A, B, C) of position `index` of `dims`.
std::array<int64_t, 3> batchOffsets(const std::vector<BatchDim> &dims, int64_t index);

using ProductFn = std::function<void(const ProductArgs &, Pool &)>;

/// The library's own kernels: any strides and types. Needs ownProductBytes(threads).
ProductFn prepareOwnProduct(const Product &product);

/// The library's own kernels, for products large enough that all threads share the packing. Empty for others,
/// and for results that are not f32, which the sum is held in. `workspaceBytes` is set to what it needs, at
/// most sharedProductBytes.
ProductFn prepareSharedProduct(const Product &product, int threads, int64_t &workspaceBytes);

/// oneDNN, one-thread calls on blocks of C. Empty when it has no fast kernel for the layouts and types.
/// `workspaceBytes` is set to what it needs for `threads`.
ProductFn prepareVendorProduct(const Product &product, int threads, int64_t &workspaceBytes);

} // namespace tessera::rt::cpu
