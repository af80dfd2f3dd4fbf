// Makes an executable of a program description and its kernels.

#ifndef TESSERA_LIB_TARGET_CPU_EXECUTABLE_H
#define TESSERA_LIB_TARGET_CPU_EXECUTABLE_H

#include "lib/Target/Common/Link.h"
#include "lib/Target/Cpu/CompileKernels.h"

namespace tessera::cpu {

/// Object code that holds `description`, the table of `kernels` by their names (`tsr_kernel`) and a `main`
/// that hands both to the runtime's `tsr_main`.
llvm::Expected<std::string> emitMainObject(llvm::StringRef description, const CompiledKernels &kernels);

/// emitMainObject and linkExecutable on its result and the kernels' objects.
llvm::Error writeExecutable(llvm::StringRef description, const CompiledKernels &kernels, llvm::StringRef path,
                            const LinkOptions &options = {});

} // namespace tessera::cpu

#endif // TESSERA_LIB_TARGET_CPU_EXECUTABLE_H
