// What the control file of a training asks for: a size, or a problem in one line.
#include "runtime/checkpoint/control.h"
#include "runtime/core/error.h"

#include <cstdlib>

using namespace tessera::rt;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  try {
    if (parseControl({reinterpret_cast<const char *>(data), size}) < 1)
      std::abort();
  } catch (const Error &) {
  }
  return 0;
}
