// See onednn_library.h.
#include "runtime/device/cpu/onednn_library.h"

#include "runtime/device/optional_library.h"

#include <dlfcn.h>

namespace tessera::rt::cpu {
namespace {
constexpr const char *file = "libdnnl.so.2";
const OptionalLibrary about = {"oneDNN", "products of bf16", {file}, nullptr, 0, nullptr};
} // namespace

bool OneDnn::load() {
  void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return false;
#define TSR_ONEDNN_FIND(name)                                                                                \
  if (!(name = reinterpret_cast<decltype(name)>(dlsym(handle, "dnnl_" #name))))                              \
    return false;
  TSR_ONEDNN_FUNCTIONS(TSR_ONEDNN_FIND)
#undef TSR_ONEDNN_FIND
  // Found in what oneDNN itself loaded, if it was built with OpenMP.
  setThreads = reinterpret_cast<void (*)(int)>(dlsym(handle, "omp_set_num_threads"));
  return engine_create(&engine, dnnl_cpu, 0) == dnnl_success;
}

const OneDnn *OneDnn::get() {
  static OneDnn library;
  static const bool loaded = library.load();
  return loaded ? &library : nullptr;
}

void OneDnn::useOneThread() const {
  static thread_local bool limited = false;
  if (!limited && setThreads)
    setThreads(1);
  limited = true;
}

void sayWithoutOneDnn() {
  if (__builtin_cpu_supports("avx512bf16"))
    sayWithout(about, std::string("there is no ") + file + " on this machine (Debian: libdnnl2)");
}

} // namespace tessera::rt::cpu
