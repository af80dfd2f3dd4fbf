// The functions of NVIDIA's driver that the runtime calls, found at run time: an executable starts without a
// driver and says what is missing.
#pragma once

#include "runtime/core/error.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace tessera::rt::cuda {

// As in cuda.h, whose names and values are a stable binary interface.
using Status = int;
using DevicePointer = uint64_t;
using Handle = void *; ///< context, module, function, stream, event

/// As CUmemLocation, CUmemAllocationProp and CUmemAccessDesc of cuda.h.
struct MemoryPlace {
  int type = 1; ///< a GPU
  int number = 0;
};
struct MemoryKind {
  int type = 1; ///< pinned
  int handles = 0;
  MemoryPlace place;
  void *windows = nullptr;
  unsigned char compression = 0, network = 0;
  unsigned short usage = 0;
  unsigned char reserved[4] = {};
};
struct MemoryAccess {
  MemoryPlace place;
  int flags = 3; ///< read and write
};
static_assert(sizeof(MemoryKind) == 32 && sizeof(MemoryAccess) == 12);

/// TSR_CUDA_FUNCTION(member, symbol, parameters): every function returns a Status.
#define TSR_CUDA_FUNCTIONS(TSR_CUDA_FUNCTION)                                                                \
  TSR_CUDA_FUNCTION(init, cuInit, (unsigned flags))                                                          \
  TSR_CUDA_FUNCTION(driverVersion, cuDriverGetVersion, (int *version))                                       \
  TSR_CUDA_FUNCTION(errorName, cuGetErrorName, (Status status, const char **name))                           \
  TSR_CUDA_FUNCTION(deviceCount, cuDeviceGetCount, (int *count))                                             \
  TSR_CUDA_FUNCTION(deviceGet, cuDeviceGet, (int *device, int number))                                       \
  TSR_CUDA_FUNCTION(deviceAttribute, cuDeviceGetAttribute, (int *value, int attribute, int device))          \
  TSR_CUDA_FUNCTION(deviceName, cuDeviceGetName, (char *name, int length, int device))                       \
  TSR_CUDA_FUNCTION(contextRetain, cuDevicePrimaryCtxRetain, (Handle * context, int device))                 \
  TSR_CUDA_FUNCTION(contextRelease, cuDevicePrimaryCtxRelease_v2, (int device))                              \
  TSR_CUDA_FUNCTION(contextSetCurrent, cuCtxSetCurrent, (Handle context))                                    \
  TSR_CUDA_FUNCTION(memoryInfo, cuMemGetInfo_v2, (size_t *free, size_t *total))                              \
  TSR_CUDA_FUNCTION(allocate, cuMemAlloc_v2, (DevicePointer * pointer, size_t bytes))                        \
  TSR_CUDA_FUNCTION(release, cuMemFree_v2, (DevicePointer pointer))                                          \
  TSR_CUDA_FUNCTION(granularity, cuMemGetAllocationGranularity,                                              \
                    (size_t *bytes, const MemoryKind *kind, int flags))                                      \
  TSR_CUDA_FUNCTION(create, cuMemCreate,                                                                     \
                    (uint64_t *memory, size_t bytes, const MemoryKind *kind, unsigned long long flags))      \
  TSR_CUDA_FUNCTION(releaseCreated, cuMemRelease, (uint64_t memory))                                         \
  TSR_CUDA_FUNCTION(reserveAddresses, cuMemAddressReserve,                                                   \
                    (DevicePointer * pointer, size_t bytes, size_t alignment, DevicePointer wish,            \
                     unsigned long long flags))                                                              \
  TSR_CUDA_FUNCTION(freeAddresses, cuMemAddressFree, (DevicePointer pointer, size_t bytes))                  \
  TSR_CUDA_FUNCTION(                                                                                         \
      map, cuMemMap,                                                                                         \
      (DevicePointer pointer, size_t bytes, size_t offset, uint64_t memory, unsigned long long flags))       \
  TSR_CUDA_FUNCTION(unmap, cuMemUnmap, (DevicePointer pointer, size_t bytes))                                \
  TSR_CUDA_FUNCTION(setAccess, cuMemSetAccess,                                                               \
                    (DevicePointer pointer, size_t bytes, const MemoryAccess *access, size_t count))         \
  TSR_CUDA_FUNCTION(allocateHost, cuMemHostAlloc, (void **pointer, size_t bytes, unsigned flags))            \
  TSR_CUDA_FUNCTION(releaseHost, cuMemFreeHost, (void *pointer))                                             \
  TSR_CUDA_FUNCTION(registerHost, cuMemHostRegister_v2, (void *pointer, size_t bytes, unsigned flags))       \
  TSR_CUDA_FUNCTION(unregisterHost, cuMemHostUnregister, (void *pointer))                                    \
  TSR_CUDA_FUNCTION(set, cuMemsetD8Async,                                                                    \
                    (DevicePointer to, unsigned char value, size_t count, Handle stream))                    \
  TSR_CUDA_FUNCTION(upload, cuMemcpyHtoDAsync_v2,                                                            \
                    (DevicePointer to, const void *from, size_t bytes, Handle stream))                       \
  TSR_CUDA_FUNCTION(download, cuMemcpyDtoHAsync_v2,                                                          \
                    (void *to, DevicePointer from, size_t bytes, Handle stream))                             \
  TSR_CUDA_FUNCTION(streamCreate, cuStreamCreate, (Handle * stream, unsigned flags))                         \
  TSR_CUDA_FUNCTION(streamDestroy, cuStreamDestroy_v2, (Handle stream))                                      \
  TSR_CUDA_FUNCTION(copy, cuMemcpyDtoDAsync_v2,                                                              \
                    (DevicePointer to, DevicePointer from, size_t bytes, Handle stream))                     \
  TSR_CUDA_FUNCTION(streamSynchronize, cuStreamSynchronize, (Handle stream))                                 \
  TSR_CUDA_FUNCTION(streamQuery, cuStreamQuery, (Handle stream))                                             \
  TSR_CUDA_FUNCTION(hostFunction, cuLaunchHostFunc,                                                          \
                    (Handle stream, void (*function)(void *), void *argument))                               \
  TSR_CUDA_FUNCTION(streamWaitEvent, cuStreamWaitEvent, (Handle stream, Handle event, unsigned flags))       \
  TSR_CUDA_FUNCTION(eventCreate, cuEventCreate, (Handle * event, unsigned flags))                            \
  TSR_CUDA_FUNCTION(eventDestroy, cuEventDestroy_v2, (Handle event))                                         \
  TSR_CUDA_FUNCTION(eventRecord, cuEventRecord, (Handle event, Handle stream))                               \
  TSR_CUDA_FUNCTION(eventQuery, cuEventQuery, (Handle event))                                                \
  TSR_CUDA_FUNCTION(beginCapture, cuStreamBeginCapture_v2, (Handle stream, int mode))                        \
  TSR_CUDA_FUNCTION(endCapture, cuStreamEndCapture, (Handle stream, Handle * graph))                         \
  TSR_CUDA_FUNCTION(graphInstantiate, cuGraphInstantiateWithFlags,                                           \
                    (Handle * executable, Handle graph, unsigned long long flags))                           \
  TSR_CUDA_FUNCTION(graphLaunch, cuGraphLaunch, (Handle executable, Handle stream))                          \
  TSR_CUDA_FUNCTION(graphDestroy, cuGraphDestroy, (Handle graph))                                            \
  TSR_CUDA_FUNCTION(graphExecutableDestroy, cuGraphExecDestroy, (Handle executable))                         \
  TSR_CUDA_FUNCTION(moduleLoad, cuModuleLoadData, (Handle * module, const void *image))                      \
  TSR_CUDA_FUNCTION(moduleUnload, cuModuleUnload, (Handle module))                                           \
  TSR_CUDA_FUNCTION(moduleFunction, cuModuleGetFunction,                                                     \
                    (Handle * function, Handle module, const char *name))                                    \
  TSR_CUDA_FUNCTION(launch, cuLaunchKernel,                                                                  \
                    (Handle function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,       \
                     unsigned blockY, unsigned blockZ, unsigned sharedBytes, Handle stream,                  \
                     void **parameters, void **extra))

struct Driver {
#define TSR_CUDA_MEMBER(member, symbol, parameters) Status(*member) parameters = nullptr;
  TSR_CUDA_FUNCTIONS(TSR_CUDA_MEMBER)
#undef TSR_CUDA_MEMBER

  /// Loads libcuda.so.1 once per process. Throws Error where there is none, or an older one than CUDA 12.0's.
  static const Driver &get();
  /// Throws Error for a status that is not 0: "`what`: CUDA_ERROR_...".
  void check(Status status, const std::string &what) const;
};

/// CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR.
constexpr int attributeMajor = 75, attributeMinor = 76;
/// CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, _HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED and
/// _GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED.
constexpr int attributeMapping = 102, attributeDescriptors = 103, attributeNetwork = 110;
/// CU_STREAM_NON_BLOCKING.
constexpr unsigned streamNonBlocking = 1;
/// CU_EVENT_DISABLE_TIMING.
constexpr unsigned eventDisableTiming = 2;
/// CU_STREAM_CAPTURE_MODE_THREAD_LOCAL.
constexpr int captureThreadLocal = 1;
/// CUDA_ERROR_OUT_OF_MEMORY.
constexpr Status outOfMemory = 2;
/// CUDA_ERROR_NOT_READY: what is asked for is still under way.
constexpr Status notReady = 600;

} // namespace tessera::rt::cuda
