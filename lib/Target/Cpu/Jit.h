// Loads compiled kernels into this process.

#ifndef TESSERA_LIB_TARGET_CPU_JIT_H
#define TESSERA_LIB_TARGET_CPU_JIT_H

#include "lib/Target/Cpu/CompileKernels.h"

namespace llvm::orc {
class LLJIT;
}

namespace tessera::cpu {

/// The binary interface of a kernel; see CompiledKernel.
using KernelFunction = void (*)(void *const *args, const int64_t *scalars, int64_t begin, int64_t end);

/// Kernels in executable memory of this process, for as long as the object lives.
class JitKernels {
public:
  ~JitKernels();
  /// Compiles the kernels of `module` for the level in `options`, of which there must be one at most and this
  /// machine must have it (none: the machine's own), and loads them. Fails with diagnostics.
  static mlir::FailureOr<std::unique_ptr<JitKernels>> create(mlir::ModuleOp module,
                                                             CpuOptions options = {{}});
  /// The kernel compiled from the function `name`, or null.
  KernelFunction lookup(llvm::StringRef name) const;
  /// What the compiler found out about it, or null.
  const KernelInfo *info(llvm::StringRef name) const;
  const CompiledKernels &compiled() const { return kernels; }

private:
  JitKernels();
  CompiledKernels kernels;
  std::vector<KernelFunction> functions; ///< parallel to kernels.kernels
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

} // namespace tessera::cpu

#endif // TESSERA_LIB_TARGET_CPU_JIT_H
