// See blas_library.h.
#include "runtime/device/cuda/blas_library.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>
#include <optional>

namespace tessera::rt::cuda::blas {
namespace {

constexpr size_t leastVersion = 120000;

std::optional<Library> load() {
  void *handle = nullptr;
  for (const char *name : {"libcublasLt.so.13", "libcublasLt.so.12"})
    if (!handle)
      handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    sayWithout("there is no libcublasLt.so.13 or .12 on this machine");
    return {};
  }
  Library library;
  auto *version = reinterpret_cast<size_t (*)()>(::dlsym(handle, "cublasLtGetVersion"));
  if (!version || version() < leastVersion) {
    sayWithout("the one on this machine is older than CUDA 12's");
    return {};
  }
#define TSR_BLAS_FIND(member, symbol, parameters)                                                                      \
  if (!(library.member = reinterpret_cast<decltype(library.member)>(::dlsym(handle, symbol)))) {                       \
    sayWithout(std::string("the one on this machine lacks the function ") + symbol);                                   \
    return {};                                                                                                         \
  }
  TSR_BLAS_FUNCTIONS(TSR_BLAS_FIND)
#undef TSR_BLAS_FIND
  return library;
}

} // namespace

void sayWithout(const std::string &why) {
  static std::once_flag said;
  std::call_once(said, [&] { std::fprintf(stderr, "note: products are done without cuBLASLt, slower: %s\n", why.c_str()); });
}

const Library *Library::get() {
  if (const char *wish = std::getenv("TESSERA_CUBLASLT"); wish && std::string(wish) == "off")
    return nullptr;
  static const std::optional<Library> library = load();
  return library ? &*library : nullptr;
}

void Library::check(Status status, const std::string &what) {
  if (status != 0)
    throw Error("cuBLASLt: ", what, ": status ", status);
}

} // namespace tessera::rt::cuda::blas
