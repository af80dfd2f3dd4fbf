// The functions of NCCL that the runtime calls, found at run time: an executable starts without it and says
// what is missing.
#pragma once

#include "runtime/core/dtype.h"
#include "runtime/core/error.h"

#include <climits>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tessera::rt::nccl {

// As in nccl.h of 2.18, whose names and values later versions keep.
using Status = int;
using Comm = void *;
using Stream = void *;
struct UniqueId {
  char bytes[128];
};
/// ncclConfig_t as of 2.18; a later library takes what is beyond it from its defaults.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef, version = 21800;
  int blocking = 0, clusterSize = INT_MIN, minBlocks = INT_MIN, maxBlocks = INT_MIN;
  const char *network = nullptr;
  int splitShare = INT_MIN;
};
enum : Status { success = 0, invalidUsage = 5, remoteError = 6, inProgress = 7 };
enum Type : int {
  Int8 = 0,
  Uint8 = 1,
  Int32 = 2,
  Uint32 = 3,
  Int64 = 4,
  Uint64 = 5,
  Float16 = 6,
  Float32 = 7,
  Float64 = 8,
  Bfloat16 = 9
};
enum Operator : int { Sum = 0, Max = 2 };

/// TSR_NCCL_FUNCTION(member, symbol, parameters): functions that return a Status.
#define TSR_NCCL_FUNCTIONS(TSR_NCCL_FUNCTION)                                                                \
  TSR_NCCL_FUNCTION(getVersion, ncclGetVersion, (int *version))                                              \
  TSR_NCCL_FUNCTION(getUniqueId, ncclGetUniqueId, (UniqueId * id))                                           \
  TSR_NCCL_FUNCTION(init, ncclCommInitRankConfig,                                                            \
                    (Comm * comm, int ranks, UniqueId id, int rank, Config *config))                         \
  TSR_NCCL_FUNCTION(finalize, ncclCommFinalize, (Comm comm))                                                 \
  TSR_NCCL_FUNCTION(destroy, ncclCommDestroy, (Comm comm))                                                   \
  TSR_NCCL_FUNCTION(abort, ncclCommAbort, (Comm comm))                                                       \
  TSR_NCCL_FUNCTION(asyncError, ncclCommGetAsyncError, (Comm comm, Status * status))                         \
  TSR_NCCL_FUNCTION(groupStart, ncclGroupStart, ())                                                          \
  TSR_NCCL_FUNCTION(groupEnd, ncclGroupEnd, ())                                                              \
  TSR_NCCL_FUNCTION(allReduce, ncclAllReduce,                                                                \
                    (const void *in, void *out, size_t count, int type, int op, Comm comm, Stream stream))   \
  TSR_NCCL_FUNCTION(                                                                                         \
      reduceScatter, ncclReduceScatter,                                                                      \
      (const void *in, void *out, size_t received, int type, int op, Comm comm, Stream stream))              \
  TSR_NCCL_FUNCTION(                                                                                         \
      reduce, ncclReduce,                                                                                    \
      (const void *in, void *out, size_t count, int type, int op, int root, Comm comm, Stream stream))       \
  TSR_NCCL_FUNCTION(allGather, ncclAllGather,                                                                \
                    (const void *in, void *out, size_t sent, int type, Comm comm, Stream stream))            \
  TSR_NCCL_FUNCTION(broadcast, ncclBroadcast,                                                                \
                    (const void *in, void *out, size_t count, int type, int root, Comm comm, Stream stream)) \
  TSR_NCCL_FUNCTION(send, ncclSend,                                                                          \
                    (const void *in, size_t count, int type, int peer, Comm comm, Stream stream))            \
  TSR_NCCL_FUNCTION(receive, ncclRecv,                                                                       \
                    (void *out, size_t count, int type, int peer, Comm comm, Stream stream))

/// Functions of later versions, null where they are missing: ncclCommRegister, ncclCommDeregister of 2.19.
#define TSR_NCCL_LATER_FUNCTIONS(TSR_NCCL_FUNCTION)                                                          \
  TSR_NCCL_FUNCTION(registerMemory, ncclCommRegister,                                                        \
                    (Comm comm, void *memory, size_t bytes, void **registration))                            \
  TSR_NCCL_FUNCTION(deregisterMemory, ncclCommDeregister, (Comm comm, void *registration))

struct Library {
#define TSR_NCCL_MEMBER(member, symbol, parameters) Status(*member) parameters = nullptr;
  TSR_NCCL_FUNCTIONS(TSR_NCCL_MEMBER)
  TSR_NCCL_LATER_FUNCTIONS(TSR_NCCL_MEMBER)
#undef TSR_NCCL_MEMBER
  const char *(*lastError)(Comm) = nullptr;
  const char *(*errorString)(Status) = nullptr;

  /// Loads libnccl.so.2 once per process. Throws Error where there is none, or one older than 2.18.
  static const Library &get();
  /// Throws Error for a status that is neither success nor inProgress; `what` failed.
  void check(Status status, Comm comm, const std::string &what) const;
};

/// The type in which NCCL adds, or finds the largest of, elements; throws Error for a type that it lacks.
Type reducedType(DType type);

} // namespace tessera::rt::nccl
