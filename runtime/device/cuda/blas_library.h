// The functions of cuBLASLt that the runtime calls, found at run time.
#pragma once

#include "runtime/device/cuda/driver.h"

#include <array>

namespace tessera::rt::cuda::blas {

// As in cublasLt.h of CUDA 12, whose names and values later versions keep.
using Status = int;
struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspaceBytes;
  Status state;
  float waves;
  int reserved[4];
};
enum : int { Real32 = 0, Real16 = 2, RealB16 = 14, Compute32 = 68 };
enum DescriptorAttribute : int { TransposeA = 3, TransposeB = 4, Epilogue = 7, BiasPointer = 8 };
enum AuxAttribute : int { AuxPointer = 11, AuxLeading = 12, AuxStride = 13 };
enum LayoutAttribute : int { BatchCount = 5, BatchStride = 6 };
enum PreferenceAttribute : int {
  MostWorkspace = 1,
  AlignmentA = 5,
  AlignmentB = 6,
  AlignmentC = 7,
  AlignmentD = 8
};
/// Bits of an epilogue.
enum EpilogueKind : uint32_t {
  Plain = 1,
  Relu = 2,
  Bias = 4,
  Gelu = 32,         ///< the one by tanh
  GeluSlope = 64,    ///< its derivative times the product
  Aux = 128,         ///< with either: a matrix of the GELU's operands, which is written or read
  SumsOfFirst = 256, ///< alone: of the first factor over k, which go where a bias would be
  SumsOfSecond = 512,
};

/// TSR_BLAS_FUNCTION(member, symbol, parameters): functions that return a Status.
#define TSR_BLAS_FUNCTIONS(TSR_BLAS_FUNCTION)                                                                \
  TSR_BLAS_FUNCTION(create, cublasLtCreate, (Handle * handle))                                               \
  TSR_BLAS_FUNCTION(destroy, cublasLtDestroy, (Handle handle))                                               \
  TSR_BLAS_FUNCTION(createDescriptor, cublasLtMatmulDescCreate,                                              \
                    (Handle * descriptor, int compute, int scale))                                           \
  TSR_BLAS_FUNCTION(destroyDescriptor, cublasLtMatmulDescDestroy, (Handle descriptor))                       \
  TSR_BLAS_FUNCTION(setDescriptor, cublasLtMatmulDescSetAttribute,                                           \
                    (Handle descriptor, int attribute, const void *value, size_t bytes))                     \
  TSR_BLAS_FUNCTION(createLayout, cublasLtMatrixLayoutCreate,                                                \
                    (Handle * layout, int type, uint64_t rows, uint64_t columns, int64_t leading))           \
  TSR_BLAS_FUNCTION(destroyLayout, cublasLtMatrixLayoutDestroy, (Handle layout))                             \
  TSR_BLAS_FUNCTION(setLayout, cublasLtMatrixLayoutSetAttribute,                                             \
                    (Handle layout, int attribute, const void *value, size_t bytes))                         \
  TSR_BLAS_FUNCTION(createPreference, cublasLtMatmulPreferenceCreate, (Handle * preference))                 \
  TSR_BLAS_FUNCTION(destroyPreference, cublasLtMatmulPreferenceDestroy, (Handle preference))                 \
  TSR_BLAS_FUNCTION(setPreference, cublasLtMatmulPreferenceSetAttribute,                                     \
                    (Handle preference, int attribute, const void *value, size_t bytes))                     \
  TSR_BLAS_FUNCTION(chooseAlgorithm, cublasLtMatmulAlgoGetHeuristic,                                         \
                    (Handle handle, Handle descriptor, Handle a, Handle b, Handle c, Handle d,               \
                     Handle preference, int wanted, Heuristic *found, int *count))                           \
  TSR_BLAS_FUNCTION(checkAlgorithm, cublasLtMatmulAlgoCheck,                                                 \
                    (Handle handle, Handle descriptor, Handle a, Handle b, Handle c, Handle d,               \
                     const Algorithm *algorithm, Heuristic *result))                                         \
  TSR_BLAS_FUNCTION(multiply, cublasLtMatmul,                                                                \
                    (Handle handle, Handle descriptor, const void *alpha, const void *a, Handle aLayout,     \
                     const void *b, Handle bLayout, const void *beta, const void *c, Handle cLayout,         \
                     void *d, Handle dLayout, const Algorithm *algorithm, void *workspace,                   \
                     size_t workspaceBytes, Handle stream))

struct Library {
#define TSR_BLAS_MEMBER(member, symbol, parameters) Status(*member) parameters = nullptr;
  TSR_BLAS_FUNCTIONS(TSR_BLAS_MEMBER)
#undef TSR_BLAS_MEMBER
  size_t version = 0;

  /// Loads libcublasLt.so, 13 or 12, once per process. Null where there is none, which is said once, or where
  /// TESSERA_CUBLASLT is `off`.
  static const Library *get();
  /// Throws Error for a status that is not 0: `what` failed.
  static void check(Status status, const std::string &what);
};

/// Says once in a process that products do without cuBLASLt, and why.
void sayWithout(const std::string &why);

} // namespace tessera::rt::cuda::blas
