// CPU level detection. The compiler's own run-time support does the CPUID work, the operating system's part
// included.
#include "runtime/device/cpu/cpu.h"

#include "runtime/core/error.h"

#include <cstdlib>
#include <string>

namespace tessera::rt::cpu {

static Level detectLevel() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("x86-64-v3"))
    throw Error(
        "this CPU lacks the x86-64-v3 instructions (AVX2, FMA, BMI) that Tessera's programs need; run the "
        "program on a machine of 2015 or later");
  const bool v4 = __builtin_cpu_supports("x86-64-v4");
  const char *wanted = std::getenv("TESSERA_CPU_LEVEL");
  if (!wanted)
    return v4 ? Level::V4 : Level::V3;
  const std::string level = wanted;
  if (level == "v3")
    return Level::V3;
  if (level != "v4")
    throw Error("TESSERA_CPU_LEVEL is '" + level + "', expected v3 or v4");
  if (!v4)
    throw Error("TESSERA_CPU_LEVEL is v4, but this CPU has no AVX-512; unset it or set it to v3");
  return Level::V4;
}

Level cpuLevel() {
  static const Level level = detectLevel();
  return level;
}

const Kernels &kernels(Level level) { return level == Level::V4 ? v4::kernels : v3::kernels; }

const Kernels &kernels() { return kernels(cpuLevel()); }

} // namespace tessera::rt::cpu
