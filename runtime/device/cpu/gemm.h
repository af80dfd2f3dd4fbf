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

/// C[m,n] = activation(A[m,k] B[k,n] + (accumulate ? C : 0) + bias[n]), or as `preActivation` says, by
/// strides.
struct Product {
  int64_t m, n, k;
  std::array<int64_t, 2> a, b, c;
  std::vector<BatchDim> batch, summed;
  bool accumulate, bias;
  Activation activation;
  PreActivation preActivation;
  Element type, resultType; ///< of A and B; of C, bias and pre-activation

  int64_t items() const;
  int64_t terms() const;
};

/// The buffers of one call, offsets applied.
struct ProductArgs {
  const void *a, *b, *bias;
  void *c, *preActivation; ///< which lies as C does
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

/// A row of a block of C, or what lies like it: n elements of `type`, at most blockColumns, `stride` apart.
void readRow(Element type, const void *from, int64_t stride, int64_t n, float *to);
void writeRow(Element type, const float *from, void *to, int64_t stride, int64_t n);

/// The activation, and what becomes of its operand, of a block of C that holds the sums with the bias.
void finishBlock(const Product &product, const ProductArgs &args, int64_t first, int64_t rows,
                 int64_t columns);

/// Sums of one operand of a product over k, and over the batch dimensions that the product sums over.
struct OperandSums {
  int64_t count, k, stride, kStride;        ///< of what is not summed, and of k
  std::vector<std::array<int64_t, 2>> dims; ///< size and stride
  Element type, resultType;

  /// Into `sums`, contiguous. The same for any number of threads.
  void compute(const void *operand, void *sums, Pool &pool) const;
};

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
