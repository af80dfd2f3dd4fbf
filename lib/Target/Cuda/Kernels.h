// Compiles kernels to PTX: the public interface of the CUDA target. What a kernel may contain, and how it is
// read and scheduled, is every target's (docs/kernels.md); only who works on a unit differs.

#ifndef TESSERA_LIB_TARGET_CUDA_KERNELS_H
#define TESSERA_LIB_TARGET_CUDA_KERNELS_H

#include "dialects/dist/Machine.h"
#include "lib/Target/Common/Kernels.h"

namespace tessera::cuda {

struct CudaOptions {
  /// The GPU that PTX is made for, which newer ones take too: one of chips().
  std::string chip = "sm_80";
  /// Threads that compile kernels.
  unsigned threads = 2;
  /// Compiles each kernel's program for this machine too, to be executed by a simulator of a GPU's threads.
  bool twins = false;
};

/// The GPUs that can be compiled for: "sm_80", "sm_90", "sm_100".
llvm::SmallVector<llvm::StringRef> chips();

/// What the maker's data sheet says of one of chips(): dense products, memory, and NVLink one way. Nothing of
/// it is measured.
dist::Machine machineOf(llvm::StringRef chip);

/// Compiles the kernels of `programs` to PTX, as the CPU's does to object code.
mlir::FailureOr<target::CompiledKernels> compileKernels(llvm::ArrayRef<target::ProgramKernels> programs,
                                                        const CudaOptions &options = {});

} // namespace tessera::cuda

#endif // TESSERA_LIB_TARGET_CUDA_KERNELS_H
