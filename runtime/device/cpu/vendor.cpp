// oneDNN's engine and thread limit.
#include "runtime/device/cpu/vendor.h"

#include <dlfcn.h>

namespace tessera::rt::cpu {

const dnnl::engine &vendorEngine() {
  // Never destroyed: primitives in static objects may outlive it otherwise.
  static const dnnl::engine *engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

void useOneVendorThread() {
  // The runtime comes with oneDNN; looking it up avoids linking a second one. A oneDNN without OpenMP has
  // none.
  using SetThreads = void (*)(int);
  static const SetThreads setThreads =
      reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  static thread_local bool limited = false;
  if (!limited && setThreads)
    setThreads(1);
  limited = true;
}

} // namespace tessera::rt::cpu
