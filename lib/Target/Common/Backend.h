// What differs between the machines that kernels are compiled for.

#ifndef TESSERA_LIB_TARGET_COMMON_BACKEND_H
#define TESSERA_LIB_TARGET_COMMON_BACKEND_H

#include "lib/Target/Common/Loops.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

namespace tessera::target {

/// What a kernel becomes, which several may share: loops often do not depend on the number of units.
struct KernelCode {
  std::string object; ///< x86-64 object code, or PTX text
  std::string twin;   ///< of PTX: object code of the same program for the host, if asked for
};

/// How a kernel is run: what its code may depend on beside its loops.
struct KernelUse {
  KernelInfo info;
  Launch launch;
  bool exact = false; ///< it computes in f64
};

/// From a scheduled kernel to code. Used by several threads at once.
class KernelBackend {
public:
  virtual ~KernelBackend() = default;
  /// What its results depend on beside the kernel's text.
  virtual std::string key() const = 0;
  /// What its code depends on of how the kernel is run.
  virtual std::string keyOfUse(const KernelUse &use) const { return ""; }
  /// Whether it rounds to bf16 by an instruction, and not by integer arithmetic.
  virtual bool roundsToBF16() const { return false; }
  /// Whether kernels may call the C library for the remainder of a division.
  virtual bool callsLibrary() const { return true; }
  /// Completes the schedule of a kernel before its loops are emitted, and says how it is launched.
  virtual Launch adapt(Kernel &kernel) const { return {}; }
  /// Code from `module`, in which `implementation` is the kernel as a function of bare pointers, scalars and
  /// a range. The code's entry is `symbol`.
  virtual llvm::Expected<KernelCode> emit(llvm::Module &module, llvm::StringRef implementation,
                                          llvm::StringRef symbol, const KernelUse &use) const = 0;
};

/// Compiles every function of `programs` that has a body, identical ones once, on `threads` threads; `plain`:
/// through MLIR's bufferization, as one sequential unit. Those whose loops are the same LLVM IR share their
/// code. Results are kept for the life of the process, so that a second program with the same kernel does not
/// compile it again. Fails, with diagnostics that name the kernels, where a kernel cannot be compiled.
mlir::FailureOr<CompiledKernels> compileKernels(llvm::ArrayRef<ProgramKernels> programs,
                                                const KernelBackend &backend, unsigned threads,
                                                bool plain = false);

} // namespace tessera::target

#endif // TESSERA_LIB_TARGET_COMMON_BACKEND_H
