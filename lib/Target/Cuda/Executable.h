// Makes an executable for NVIDIA's GPUs of a program description and its kernels.

#ifndef TESSERA_LIB_TARGET_CUDA_EXECUTABLE_H
#define TESSERA_LIB_TARGET_CUDA_EXECUTABLE_H

#include "lib/Target/Common/Link.h"

namespace tessera::cuda {

/// An executable that holds the PTX of `kernels`, as text, in a table (`tsr_gpu_kernel`). It needs no CUDA to
/// be linked.
llvm::Error writeExecutable(llvm::StringRef description, const target::CompiledKernels &kernels,
                            llvm::StringRef path);

} // namespace tessera::cuda

#endif // TESSERA_LIB_TARGET_CUDA_EXECUTABLE_H
