// From LLVM IR to PTX, and to the same program for the host.

#ifndef TESSERA_LIB_TARGET_CUDA_PTX_H
#define TESSERA_LIB_TARGET_CUDA_PTX_H

#include "lib/Target/Common/Kernels.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

namespace tessera::cuda {

/// Adds the function `symbol`, in which each thread of a grid finds its part of [0, extent) and calls
/// `implementation`.
llvm::Error addEntry(llvm::Module &module, llvm::StringRef implementation, llvm::StringRef symbol,
                     const target::KernelInfo &info, const target::Launch &launch);

/// PTX text of `module` for `chip`, optimised, with the entry `symbol`. Fails where it calls a function, for
/// there is none on a GPU.
llvm::Expected<std::string> emitPtx(llvm::Module &module, llvm::StringRef symbol, llvm::StringRef chip,
                                    const target::Launch &launch);

/// Object code of `module` for this machine with the function `symbol` + "_twin"(void **parameters): what one
/// thread of the GPU does. What a thread asks of the GPU becomes calls of runtime/device/cuda/check/simt.h.
llvm::Expected<std::string> emitTwin(llvm::Module &module, llvm::StringRef symbol);

} // namespace tessera::cuda

#endif // TESSERA_LIB_TARGET_CUDA_PTX_H
