// See nccl_library.h.
#include "runtime/comm/nccl/nccl_library.h"

#include <dlfcn.h>

namespace tessera::rt::nccl {
namespace {

constexpr const char *library = "libnccl.so.2";
constexpr int leastVersion = 21800;

template <typename T> void find(void *handle, const char *symbol, T &member) {
  member = reinterpret_cast<T>(::dlsym(handle, symbol));
  if (!member)
    throw Error(library, " lacks the function ", symbol,
                "; install NCCL 2.18 or later, or run with --comm host");
}

Library load() {
  void *handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    throw Error("there is no NCCL on this machine, by which GPUs exchange data: ", ::dlerror(),
                "; install NCCL 2.18 or later, or run with --comm host, which copies through the host");
  Library nccl;
  find(handle, "ncclGetVersion", nccl.getVersion);
  int version = 0;
  nccl.getVersion(&version);
  if (version < leastVersion)
    throw Error("NCCL on this machine is ", version / 10000, ".", version / 100 % 100, ", the program needs ",
                leastVersion / 10000, ".", leastVersion / 100 % 100,
                "; install a later one, or run with --comm host");
#define TSR_NCCL_FIND(member, symbol, parameters) find(handle, #symbol, nccl.member);
  TSR_NCCL_FUNCTIONS(TSR_NCCL_FIND)
#undef TSR_NCCL_FIND
#define TSR_NCCL_FIND(member, symbol, parameters)                                                            \
  nccl.member = reinterpret_cast<decltype(nccl.member)>(::dlsym(handle, #symbol));
  TSR_NCCL_LATER_FUNCTIONS(TSR_NCCL_FIND)
#undef TSR_NCCL_FIND
  find(handle, "ncclGetLastError", nccl.lastError);
  find(handle, "ncclGetErrorString", nccl.errorString);
  return nccl;
}

} // namespace

const Library &Library::get() {
  static const Library nccl = load();
  return nccl;
}

void Library::check(Status status, Comm comm, const std::string &what) const {
  if (status == success || status == inProgress)
    return;
  std::string detail = lastError(comm);
  throw Error(what, ": ", errorString(status), detail.empty() ? "" : " (" + detail + ")");
}

Type reducedType(DType type) {
  switch (type) {
  case DType::F64:
    return Float64;
  case DType::F32:
    return Float32;
  case DType::BF16:
    return Bfloat16;
  case DType::F16:
    return Float16;
  case DType::I64:
    return Int64;
  case DType::I32:
    return Int32;
  case DType::I8:
    return Int8;
  case DType::U64:
    return Uint64;
  case DType::U32:
    return Uint32;
  case DType::U8:
  case DType::Bool:
    return Uint8;
  case DType::I16:
  case DType::U16:
    break;
  }
  throw Error("NCCL reduces no elements of type ", dtypeName(type), "; run with --comm host");
}

} // namespace tessera::rt::nccl
