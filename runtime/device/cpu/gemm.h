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

  int64_t items() const;
  int64_t terms() const;
};

/// The buffers of one call, offsets applied.
struct ProductArgs {
  const float *a, *b, *bias, *residual;
  float *c;
  char *workspace;
};

/// Offsets (in A, B, C) of position `index` of `dims`.
std::array<int64_t, 3> batchOffsets(const std::vector<BatchDim> &dims, int64_t index);

using ProductFn = std::function<void(const ProductArgs &, Pool &)>;

/// The library's own kernels: any strides. Needs ownProductBytes(threads).
ProductFn prepareOwnProduct(const Product &product);

/// The library's own kernels, for products large enough that all threads share the packing. Empty for others.
/// `workspaceBytes` is set to what it needs, at most sharedProductBytes.
ProductFn prepareSharedProduct(const Product &product, int threads, int64_t &workspaceBytes);

/// oneDNN, one-thread calls on blocks of C. Empty when it has no fast kernel for the layouts.
/// `workspaceBytes` is set to what it needs for `threads`.
ProductFn prepareVendorProduct(const Product &product, int threads, int64_t &workspaceBytes);

} // namespace tessera::rt::cpu
