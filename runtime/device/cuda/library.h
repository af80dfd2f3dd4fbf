// The library functions of program descriptions on a GPU. Their contract is runtime/device/cpu/library.h.
#pragma once

#include "runtime/device/device.h"

namespace tessera::rt::cuda {

class CudaDevice;

/// Checks and prepares a call. Throws Error as cpu::prepareCall does, and for a function or a size that GPUs
/// have no kernel for.
Work prepareCall(CudaDevice &device, const LibrarySite &site);

} // namespace tessera::rt::cuda
