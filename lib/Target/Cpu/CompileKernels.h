// Compiles kernels to x86-64 object code: the public interface of the CPU target.

#ifndef TESSERA_LIB_TARGET_CPU_COMPILEKERNELS_H
#define TESSERA_LIB_TARGET_CPU_COMPILEKERNELS_H

#include "lib/Target/Common/Kernels.h"

namespace tessera::cpu {

using namespace target;

struct CpuOptions {
  std::vector<CpuLevel> levels = {CpuLevel::V3, CpuLevel::V4};
  /// Threads that compile kernels; each has an MLIR and an LLVM context of its own.
  unsigned threads = 2;
  /// Compiles every kernel through MLIR's bufferization, as one sequential unit: an independent way to check
  /// the other.
  bool plain = false;
};

/// Compiles the kernels of `programs` for the CPU; see Backend.h.
mlir::FailureOr<CompiledKernels> compileKernels(llvm::ArrayRef<ProgramKernels> programs,
                                                const CpuOptions &options = {});

} // namespace tessera::cpu

#endif // TESSERA_LIB_TARGET_CPU_COMPILEKERNELS_H
