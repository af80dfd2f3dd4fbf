// Our declarations of NVIDIA's libraries against NVIDIA's headers: functions, sizes, constants. It is no part
// of the build, which needs no CUDA; test/e2e/test_cuda_declarations.py compiles it where the headers are.
#include "runtime/comm/nccl/nccl_library.h"
#include "runtime/device/cuda/blas_library.h"
#include "runtime/device/cuda/dnn_graph.h"
#include "runtime/device/cuda/dnn_library.h"
#include "runtime/device/cuda/driver.h"

#include <cstddef>
#include <cublasLt.h>
#include <cuda.h>
#include <cudnn.h>
#include <nccl.h>
#include <type_traits>

namespace tessera::rt {

template <typename T> constexpr bool isNumber = std::is_integral_v<T> || std::is_enum_v<T>;

/// Whether a value of type `Ours` is passed, and what it points to is laid out, as one of `Theirs`. Pointers
/// to what is not told (handles, data) fit all others.
template <typename Ours, typename Theirs> constexpr bool fits() {
  if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    using O = std::remove_cv_t<std::remove_pointer_t<Ours>>;
    using T = std::remove_cv_t<std::remove_pointer_t<Theirs>>;
    if constexpr (std::is_void_v<O> || std::is_void_v<T>)
      return true;
    else
      return fits<O, T>();
  } else if constexpr (isNumber<Ours> && isNumber<Theirs>) {
    return sizeof(Ours) == sizeof(Theirs);
  } else if constexpr (std::is_same_v<Ours, nccl::Config>) {
    return std::is_same_v<Theirs, ncclConfig_t>; // which grows, and says how large it is
  } else if constexpr (std::is_class_v<Ours> && (std::is_class_v<Theirs> || std::is_union_v<Theirs>)) {
    return sizeof(Ours) == sizeof(Theirs) && alignof(Ours) <= alignof(Theirs);
  } else {
    return std::is_same_v<Ours, Theirs>;
  }
}

template <typename Ours, typename Theirs> struct Call;
template <typename R, typename... A, typename S, typename... B> struct Call<R (*)(A...), S (*)(B...)> {
  static constexpr bool same = [] {
    if constexpr (sizeof...(A) == sizeof...(B))
      return fits<R, S>() && (fits<A, B>() && ...);
    else
      return false;
  }();
};

#define TSR_SAME_CALL(member, symbol, parameters)                                                            \
  static_assert(Call<Status(*) parameters, decltype(&::symbol)>::same, "the parameters of " #symbol);
#define TSR_SAME(ours, theirs) static_assert((long long)(ours) == (long long)(theirs), #ours " is " #theirs)
#define TSR_SAME_PLACE(ours, member, theirs, their)                                                          \
  static_assert(offsetof(ours, member) == offsetof(theirs, their) &&                                         \
                    sizeof(ours::member) == sizeof(theirs::their),                                           \
                #ours "::" #member " is " #theirs "::" #their)

namespace cuda {
TSR_CUDA_FUNCTIONS(TSR_SAME_CALL)
TSR_SAME(attributeMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
TSR_SAME(attributeMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
TSR_SAME(attributeMapping, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
TSR_SAME(attributeDescriptors, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
TSR_SAME(attributeNetwork, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
TSR_SAME(streamNonBlocking, CU_STREAM_NON_BLOCKING);
TSR_SAME(eventDisableTiming, CU_EVENT_DISABLE_TIMING);
TSR_SAME(captureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
TSR_SAME(outOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
TSR_SAME(notReady, CUDA_ERROR_NOT_READY);
TSR_SAME(MemoryPlace().type, CU_MEM_LOCATION_TYPE_DEVICE);
TSR_SAME(MemoryKind().type, CU_MEM_ALLOCATION_TYPE_PINNED);
TSR_SAME(MemoryAccess().flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
TSR_SAME_PLACE(MemoryPlace, type, CUmemLocation, type);
TSR_SAME_PLACE(MemoryPlace, number, CUmemLocation, id);
TSR_SAME_PLACE(MemoryKind, type, CUmemAllocationProp, type);
TSR_SAME_PLACE(MemoryKind, handles, CUmemAllocationProp, requestedHandleTypes);
TSR_SAME_PLACE(MemoryKind, place, CUmemAllocationProp, location);
TSR_SAME_PLACE(MemoryKind, windows, CUmemAllocationProp, win32HandleMetaData);
TSR_SAME_PLACE(MemoryKind, compression, CUmemAllocationProp, allocFlags.compressionType);
TSR_SAME_PLACE(MemoryKind, network, CUmemAllocationProp, allocFlags.gpuDirectRDMACapable);
TSR_SAME_PLACE(MemoryKind, usage, CUmemAllocationProp, allocFlags.usage);
TSR_SAME_PLACE(MemoryAccess, flags, CUmemAccessDesc, flags);
} // namespace cuda

namespace cuda::blas {
TSR_BLAS_FUNCTIONS(TSR_SAME_CALL)
TSR_SAME_PLACE(Heuristic, algorithm, cublasLtMatmulHeuristicResult_t, algo);
TSR_SAME_PLACE(Heuristic, workspaceBytes, cublasLtMatmulHeuristicResult_t, workspaceSize);
TSR_SAME_PLACE(Heuristic, state, cublasLtMatmulHeuristicResult_t, state);
TSR_SAME_PLACE(Heuristic, waves, cublasLtMatmulHeuristicResult_t, wavesCount);
TSR_SAME(Real32, CUDA_R_32F);
TSR_SAME(Real16, CUDA_R_16F);
TSR_SAME(RealB16, CUDA_R_16BF);
TSR_SAME(Compute32, CUBLAS_COMPUTE_32F);
TSR_SAME(TransposeA, CUBLASLT_MATMUL_DESC_TRANSA);
TSR_SAME(TransposeB, CUBLASLT_MATMUL_DESC_TRANSB);
TSR_SAME(DescriptorAttribute::Epilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
TSR_SAME(BiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
TSR_SAME(AuxPointer, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
TSR_SAME(AuxLeading, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
TSR_SAME(AuxStride, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE);
TSR_SAME(BatchCount, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
TSR_SAME(BatchStride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
TSR_SAME(MostWorkspace, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
TSR_SAME(AlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
TSR_SAME(AlignmentB, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
TSR_SAME(AlignmentC, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
TSR_SAME(AlignmentD, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
TSR_SAME(Plain, CUBLASLT_EPILOGUE_DEFAULT);
TSR_SAME(Relu, CUBLASLT_EPILOGUE_RELU);
TSR_SAME(Bias, CUBLASLT_EPILOGUE_BIAS);
TSR_SAME(Gelu, CUBLASLT_EPILOGUE_GELU);
TSR_SAME(Gelu | Aux, CUBLASLT_EPILOGUE_GELU_AUX);
TSR_SAME(Gelu | Bias, CUBLASLT_EPILOGUE_GELU_BIAS);
TSR_SAME(Relu | Bias, CUBLASLT_EPILOGUE_RELU_BIAS);
TSR_SAME(Gelu | Aux | Bias, CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
TSR_SAME(GeluSlope | Aux, CUBLASLT_EPILOGUE_DGELU);
TSR_SAME(SumsOfFirst, CUBLASLT_EPILOGUE_BGRADA);
TSR_SAME(SumsOfSecond, CUBLASLT_EPILOGUE_BGRADB);
} // namespace cuda::blas

namespace cuda::dnn {
TSR_DNN_FUNCTIONS(TSR_SAME_CALL)
TSR_SAME_PLACE(Algorithm, number, cudnnConvolutionFwdAlgoPerf_t, algo);
TSR_SAME_PLACE(Algorithm, status, cudnnConvolutionFwdAlgoPerf_t, status);
TSR_SAME_PLACE(Algorithm, time, cudnnConvolutionFwdAlgoPerf_t, time);
TSR_SAME_PLACE(Algorithm, workspaceBytes, cudnnConvolutionFwdAlgoPerf_t, memory);
TSR_SAME_PLACE(Algorithm, deterministic, cudnnConvolutionFwdAlgoPerf_t, determinism);
TSR_SAME_PLACE(Algorithm, math, cudnnConvolutionFwdAlgoPerf_t, mathType);
TSR_SAME(1, CUDNN_DETERMINISTIC);
TSR_SAME(Float, CUDNN_DATA_FLOAT);
TSR_SAME(ByRows, CUDNN_TENSOR_NCHW);
TSR_SAME(CrossCorrelation, CUDNN_CROSS_CORRELATION);
TSR_SAME(NoTensorCores, CUDNN_FMA_MATH);

TSR_SAME(PointwiseMode, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
TSR_SAME(Engine, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
TSR_SAME(EngineConfiguration, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
TSR_SAME(Heuristics, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
TSR_SAME(Plan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
TSR_SAME(PointwiseOperation, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
TSR_SAME(OperationGraph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
TSR_SAME(VariantPack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
TSR_SAME(Tensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
TSR_SAME(MatmulMode, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
TSR_SAME(MatmulOperation, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
TSR_SAME(ReductionMode, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
TSR_SAME(ReductionOperation, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
TSR_SAME(ReshapeOperation, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);

TSR_SAME(HandleValue, CUDNN_TYPE_HANDLE);
TSR_SAME(TypeValue, CUDNN_TYPE_DATA_TYPE);
TSR_SAME(BoolValue, CUDNN_TYPE_BOOLEAN);
TSR_SAME(IntValue, CUDNN_TYPE_INT64);
TSR_SAME(PointerValue, CUDNN_TYPE_VOID_PTR);
TSR_SAME(HeuristicsValue, CUDNN_TYPE_HEUR_MODE);
TSR_SAME(NoteValue, CUDNN_TYPE_NUMERICAL_NOTE);
TSR_SAME(PointwiseValue, CUDNN_TYPE_POINTWISE_MODE);
TSR_SAME(DescriptorValue, CUDNN_TYPE_BACKEND_DESCRIPTOR);
TSR_SAME(ReductionValue, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE);

TSR_SAME(PointwiseModeOf, CUDNN_ATTR_POINTWISE_MODE);
TSR_SAME(PointwiseType, CUDNN_ATTR_POINTWISE_MATH_PREC);
TSR_SAME(PointwiseAxis, CUDNN_ATTR_POINTWISE_AXIS);
TSR_SAME(HeuristicsMode, CUDNN_ATTR_ENGINEHEUR_MODE);
TSR_SAME(HeuristicsGraph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
TSR_SAME(HeuristicsResults, CUDNN_ATTR_ENGINEHEUR_RESULTS);
TSR_SAME(ConfigurationEngine, CUDNN_ATTR_ENGINECFG_ENGINE);
TSR_SAME(PlanHandle, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
TSR_SAME(PlanConfiguration, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
TSR_SAME(PlanWorkspace, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
TSR_SAME(PointwiseBy, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
TSR_SAME(PointwiseX, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
TSR_SAME(PointwiseB, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
TSR_SAME(PointwiseY, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
TSR_SAME(PointwiseT, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
TSR_SAME(GraphHandle, CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
TSR_SAME(GraphOperations, CUDNN_ATTR_OPERATIONGRAPH_OPS);
TSR_SAME(TensorAlignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
TSR_SAME(TensorType, CUDNN_ATTR_TENSOR_DATA_TYPE);
TSR_SAME(TensorSizes, CUDNN_ATTR_TENSOR_DIMENSIONS);
TSR_SAME(TensorStrides, CUDNN_ATTR_TENSOR_STRIDES);
TSR_SAME(TensorId, CUDNN_ATTR_TENSOR_UNIQUE_ID);
TSR_SAME(TensorIsVirtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
TSR_SAME(TensorIsByValue, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
TSR_SAME(PackIds, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
TSR_SAME(PackPointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
TSR_SAME(PackWorkspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
TSR_SAME(EngineNotes, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
TSR_SAME(MatmulType, CUDNN_ATTR_MATMUL_COMP_TYPE);
TSR_SAME(MatmulA, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
TSR_SAME(MatmulB, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
TSR_SAME(MatmulC, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
TSR_SAME(MatmulBy, CUDNN_ATTR_OPERATION_MATMUL_DESC);
TSR_SAME(ReductionOperator, CUDNN_ATTR_REDUCTION_OPERATOR);
TSR_SAME(ReductionType, CUDNN_ATTR_REDUCTION_COMP_TYPE);
TSR_SAME(ReductionX, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
TSR_SAME(ReductionY, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
TSR_SAME(ReductionBy, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
TSR_SAME(ReshapeX, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
TSR_SAME(ReshapeY, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);

TSR_SAME(Float32, CUDNN_DATA_FLOAT);
TSR_SAME(Float16, CUDNN_DATA_HALF);
TSR_SAME(Int32, CUDNN_DATA_INT32);
TSR_SAME(BFloat16, CUDNN_DATA_BFLOAT16);
TSR_SAME(Boolean, CUDNN_DATA_BOOLEAN);
TSR_SAME(Add, CUDNN_POINTWISE_ADD);
TSR_SAME(Multiply, CUDNN_POINTWISE_MUL);
TSR_SAME(Divide, CUDNN_POINTWISE_DIV);
TSR_SAME(Subtract, CUDNN_POINTWISE_SUB);
TSR_SAME(Exponential, CUDNN_POINTWISE_EXP);
TSR_SAME(Logarithm, CUDNN_POINTWISE_LOG);
TSR_SAME(AtLeast, CUDNN_POINTWISE_CMP_GE);
TSR_SAME(Index, CUDNN_POINTWISE_GEN_INDEX);
TSR_SAME(Select, CUDNN_POINTWISE_BINARY_SELECT);
TSR_SAME(Sum, CUDNN_REDUCE_TENSOR_ADD);
TSR_SAME(Most, CUDNN_REDUCE_TENSOR_MAX);
TSR_SAME(HeuristicsA, CUDNN_HEUR_MODE_A);
TSR_SAME(Nondeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
} // namespace cuda::dnn

namespace nccl {
TSR_NCCL_FUNCTIONS(TSR_SAME_CALL)
TSR_NCCL_LATER_FUNCTIONS(TSR_SAME_CALL)
static_assert(Call<const char *(*)(Comm), decltype(&::ncclGetLastError)>::same);
static_assert(Call<const char *(*)(Status), decltype(&::ncclGetErrorString)>::same);
TSR_SAME(sizeof(UniqueId), sizeof(ncclUniqueId));
static_assert(sizeof(Config) <= sizeof(ncclConfig_t));
TSR_SAME_PLACE(Config, size, ncclConfig_t, size);
TSR_SAME_PLACE(Config, magic, ncclConfig_t, magic);
TSR_SAME_PLACE(Config, version, ncclConfig_t, version);
TSR_SAME_PLACE(Config, blocking, ncclConfig_t, blocking);
TSR_SAME_PLACE(Config, clusterSize, ncclConfig_t, cgaClusterSize);
TSR_SAME_PLACE(Config, minBlocks, ncclConfig_t, minCTAs);
TSR_SAME_PLACE(Config, maxBlocks, ncclConfig_t, maxCTAs);
TSR_SAME_PLACE(Config, network, ncclConfig_t, netName);
TSR_SAME_PLACE(Config, splitShare, ncclConfig_t, splitShare);
constexpr ncclConfig_t defaults = NCCL_CONFIG_INITIALIZER;
TSR_SAME(Config().magic, defaults.magic);
TSR_SAME(Config().clusterSize, NCCL_CONFIG_UNDEF_INT);
TSR_SAME(success, ncclSuccess);
TSR_SAME(invalidUsage, ncclInvalidUsage);
TSR_SAME(remoteError, ncclRemoteError);
TSR_SAME(inProgress, ncclInProgress);
TSR_SAME(Int8, ncclInt8);
TSR_SAME(Uint8, ncclUint8);
TSR_SAME(Int32, ncclInt32);
TSR_SAME(Uint32, ncclUint32);
TSR_SAME(Int64, ncclInt64);
TSR_SAME(Uint64, ncclUint64);
TSR_SAME(Float16, ncclFloat16);
TSR_SAME(Float32, ncclFloat32);
TSR_SAME(Float64, ncclFloat64);
TSR_SAME(Bfloat16, ncclBfloat16);
TSR_SAME(Sum, ncclSum);
TSR_SAME(Max, ncclMax);
} // namespace nccl

} // namespace tessera::rt
