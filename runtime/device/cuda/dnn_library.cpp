// See dnn_library.h.
#include "runtime/device/cuda/dnn_library.h"

#include "runtime/device/optional_library.h"

#include <optional>

namespace tessera::rt::cuda::dnn {
namespace {

const OptionalLibrary about = {"cuDNN", "convolutions", {"libcudnn.so.9"}, "cudnnGetVersion", 90000, "9.0"};

std::optional<Library> load() {
  void *handle = open(about);
  if (!handle)
    return {};
  Library library;
  library.version = reinterpret_cast<size_t (*)()>(find(about, handle, about.version))();
#define TSR_DNN_FIND(member, symbol, parameters)                                                             \
  if (!(library.member = reinterpret_cast<decltype(library.member)>(find(about, handle, #symbol))))          \
    return {};
  TSR_DNN_FUNCTIONS(TSR_DNN_FIND)
#undef TSR_DNN_FIND
  return library;
}

} // namespace

void sayWithout(const std::string &why) { rt::sayWithout(about, why); }

const Library *Library::get() {
  if (isOff("TESSERA_CUDNN"))
    return nullptr;
  static const std::optional<Library> library = load();
  return library ? &*library : nullptr;
}

void Library::check(Status status, const char *what) {
  if (status != 0)
    throw Error("cuDNN: ", what, ": status ", status, "; TESSERA_CUDNN=off does without it");
}

} // namespace tessera::rt::cuda::dnn
