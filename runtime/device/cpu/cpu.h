// The instruction-set level of this machine, and the kernels that go with it.
#pragma once

#include "runtime/device/cpu/kernels/kernels.h"

namespace tessera::rt::cpu {

/// x86-64 psABI levels that kernels are compiled for.
enum class Level { V3 = 3, V4 = 4 };

/// The best level this machine has, lowered (never raised) by the environment variable TESSERA_CPU_LEVEL = v3
/// | v4. Throws Error below x86-64-v3 or for another value of the variable.
Level cpuLevel();

/// The kernels of a level; `kernels()` those of cpuLevel(), decided once per process.
const Kernels &kernels(Level level);
const Kernels &kernels();

} // namespace tessera::rt::cpu
