// The library that programs for the CPU call: runtime/device/cpu/library.h.

#ifndef TESSERA_LIB_TARGET_CPU_LIBRARY_H
#define TESSERA_LIB_TARGET_CPU_LIBRARY_H

#include "dialects/nn/Library.h"

namespace tessera::cpu {
const nn::Library &library();
} // namespace tessera::cpu

#endif // TESSERA_LIB_TARGET_CPU_LIBRARY_H
