// See blas_library.h.
#include "runtime/device/cuda/blas_library.h"

#include "runtime/device/optional_library.h"

#include <optional>

namespace tessera::rt::cuda::blas {
namespace {

const OptionalLibrary about = {"cuBLASLt",           "products", {"libcublasLt.so.13", "libcublasLt.so.12"},
                               "cublasLtGetVersion", 120000,     "CUDA 12's"};

std::optional<Library> load() {
  void *handle = open(about);
  if (!handle)
    return {};
  Library library;
#define TSR_BLAS_FIND(member, symbol, parameters)                                                            \
  if (!(library.member = reinterpret_cast<decltype(library.member)>(find(about, handle, #symbol))))          \
    return {};
  TSR_BLAS_FUNCTIONS(TSR_BLAS_FIND)
#undef TSR_BLAS_FIND
  library.version = reinterpret_cast<size_t (*)()>(find(about, handle, about.version))();
  return library;
}

} // namespace

void sayWithout(const std::string &why) { rt::sayWithout(about, why); }

const Library *Library::get() {
  if (isOff("TESSERA_CUBLASLT"))
    return nullptr;
  static const std::optional<Library> library = load();
  return library ? &*library : nullptr;
}

void Library::check(Status status, const std::string &what) {
  if (status != 0)
    throw Error("cuBLASLt: ", what, ": status ", status, "; TESSERA_CUBLASLT=off does without it");
}

} // namespace tessera::rt::cuda::blas
