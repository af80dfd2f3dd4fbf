// The library that programs for GPUs of NVIDIA call: runtime/device/cuda/library.h.

#ifndef TESSERA_LIB_TARGET_GPU_LIBRARY_H
#define TESSERA_LIB_TARGET_GPU_LIBRARY_H

#include "dialects/nn/Library.h"

namespace tessera::cuda {
const nn::Library &library();
} // namespace tessera::cuda

#endif // TESSERA_LIB_TARGET_GPU_LIBRARY_H
