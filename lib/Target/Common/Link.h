// Makes an executable of a program description and a table of what belongs to it.

#ifndef TESSERA_LIB_TARGET_COMMON_LINK_H
#define TESSERA_LIB_TARGET_COMMON_LINK_H

#include "lib/Target/Common/Kernels.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

namespace tessera::target {

struct LinkOptions {
  /// The static runtime library; empty: libtessera-rt.a in ../lib beside the running program, or where it is
  /// installed.
  std::string runtimeLibrary;
  /// The C++ compiler driver that links; empty: the first of c++, g++, clang++ in PATH.
  std::string driver;
  /// The file name of an archive beside the runtime library, for a device that the runtime lacks; empty:
  /// none.
  std::string deviceLibrary;
  /// Further arguments of the driver after the runtime library.
  std::vector<std::string> libraries = {"-lz", "-lpthread", "-ldl"};
  /// Makes a shared library of the objects alone instead.
  bool shared = false;
};

/// The rows of the table that the runtime is given beside the description, made in `module`. `text` makes the
/// address of a constant string.
using TableRows = llvm::function_ref<std::vector<llvm::Constant *>(
    llvm::Module &module, llvm::function_ref<llvm::Constant *(llvm::StringRef)> text)>;

/// Object code that holds `description`, a table and a `main` that hands both to the runtime's function
/// `runtime`.
llvm::Expected<std::string> emitMainObject(llvm::StringRef description, llvm::StringRef runtime,
                                           TableRows rows);

/// Links object files (their contents) with the runtime into the executable `path`. The file appears complete
/// or not at all.
llvm::Error linkExecutable(llvm::ArrayRef<llvm::StringRef> objects, llvm::StringRef path,
                           const LinkOptions &options = {});

/// A shared library of the twins of `kernels`, which a simulator executes on this machine (docs/gpu.md).
llvm::Error linkTwins(const CompiledKernels &kernels, llvm::StringRef path);

} // namespace tessera::target

#endif // TESSERA_LIB_TARGET_COMMON_LINK_H
