// See driver.h.
#include "runtime/device/cuda/driver.h"

#include <dlfcn.h>

namespace tessera::rt::cuda {
namespace {

constexpr const char *library = "libcuda.so.1";
constexpr int leastVersion = 12000;

Driver load() {
  void *handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    throw Error("there is no driver of NVIDIA on this machine: ", ::dlerror(),
                "; run the program where there is a GPU, or compile it with --target cpu");
  Driver driver;
  auto find = [&](auto &member, const char *symbol) {
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(::dlsym(handle, symbol));
    return member != nullptr;
  };
  int version = 0;
  if (find(driver.driverVersion, "cuDriverGetVersion"))
    driver.driverVersion(&version);
  if (version < leastVersion)
    throw Error("the driver of NVIDIA on this machine is for CUDA ", version / 1000, ".", version % 1000 / 10,
                ", the program needs ", leastVersion / 1000, ".", leastVersion % 1000 / 10,
                " (driver 525 or later); update the driver");
#define TSR_CUDA_FIND(member, symbol, parameters)                                                            \
  if (!find(driver.member, #symbol))                                                                         \
    throw Error(library, " lacks the function ", #symbol, "; update the driver");
  TSR_CUDA_FUNCTIONS(TSR_CUDA_FIND)
#undef TSR_CUDA_FIND
  if (Status status = driver.init(0))
    driver.check(status, "the driver of NVIDIA does not start");
  return driver;
}

} // namespace

const Driver &Driver::get() {
  static const Driver driver = load();
  return driver;
}

void Driver::check(Status status, const std::string &what) const {
  if (status == 0)
    return;
  const char *name = nullptr;
  if (errorName(status, &name) != 0 || !name)
    name = "an unknown error";
  if (size_t free = 0, total = 0; status == outOfMemory && memoryInfo(&free, &total) == 0)
    throw Error(
        what, ": ", name, " (", status, "): ", free, " of the GPU's ", total,
        " bytes are free; end what else uses it, or compile for more ranks or with more microbatches");
  throw Error(what, ": ", name, " (", status, ")");
}

} // namespace tessera::rt::cuda
