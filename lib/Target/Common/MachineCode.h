// From LLVM IR to machine code: x86-64 objects, and what every target shares.

#ifndef TESSERA_LIB_TARGET_COMMON_MACHINECODE_H
#define TESSERA_LIB_TARGET_COMMON_MACHINECODE_H

#include "lib/Target/Common/Kernels.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"

namespace tessera::target {

/// Makes `implementation`, a function of bare pointers, scalars and the range, callable as `symbol` through
/// the kernels' binary interface, and keeps the two apart so that what is known about the pointers survives.
void wrapKernel(llvm::Module &module, llvm::StringRef implementation, llvm::StringRef symbol);

/// LLVM's back end for a target that has been initialised.
llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
createMachine(const llvm::Triple &triple, llvm::StringRef cpu, llvm::StringRef features = "");

/// Sets triple, data layout and the CPU of every function, verifies and optimises. `joinStatements`:
/// neighbouring ones become vectors, as loops do anyway.
llvm::Error optimise(llvm::Module &module, llvm::TargetMachine &machine, bool joinStatements);

/// An optimised module as assembly or object code.
llvm::Expected<std::string> emit(llvm::Module &module, llvm::TargetMachine &machine,
                                 llvm::CodeGenFileType type);

/// Sets triple, data layout and, on every function, CPU and vector width of `level`, then optimises.
llvm::Error optimise(llvm::Module &module, CpuLevel level);

/// Relocatable object code of an optimised module.
llvm::Expected<std::string> emitObjectCode(llvm::Module &module, CpuLevel level);

/// Relocatable object code of `module` for any x86-64 CPU, not optimised.
llvm::Expected<std::string> emitPortableObject(llvm::Module &module);

/// Names of the functions that `module` calls and does not define, LLVM's intrinsics apart.
std::vector<std::string> externalCalls(const llvm::Module &module);

} // namespace tessera::target

#endif // TESSERA_LIB_TARGET_COMMON_MACHINECODE_H
