// What a program is compiled for. docs/how-to/add-a-target.md says what makes one.
#ifndef TESSERA_LIB_TARGET_TARGET_H
#define TESSERA_LIB_TARGET_TARGET_H

#include "dialects/dist/Machine.h"
#include "dialects/nn/Library.h"
#include "lib/Target/Common/Kernels.h"
#include "llvm/Support/Error.h"

namespace tessera::target {

/// All that compiling asks of the machine that a program is for, and does for it alone.
class Target {
public:
  virtual ~Target() = default;
  /// As the program's description has it: the name of the library, "cpu"; where there are several chips,
  /// behind a colon which, "cuda:sm_90".
  virtual std::string name() const = 0;
  virtual const nn::Library &library() const = 0;
  /// Its rates, unless a module says others.
  virtual dist::Machine machine() const { return {}; }

  /// Compiles the kernels of an executable's programs (docs/kernels.md), which may be in different contexts.
  /// `twins`: for a simulator on this machine too. Fails with diagnostics that name the kernels.
  virtual mlir::FailureOr<CompiledKernels> compileKernels(llvm::ArrayRef<ProgramKernels> programs,
                                                          bool twins) const = 0;
  /// Whether it makes twins: see CompiledKernel.
  virtual bool hasTwins() const { return false; }
  /// Of the files in which `--dump-phases` shows what kernels became, ".ptx"; empty: that is no text.
  virtual llvm::StringRef textExtension() const { return {}; }
  /// Makes of the program an executable, which appears complete or not at all.
  virtual llvm::Error writeExecutable(llvm::StringRef description, const CompiledKernels &kernels,
                                      llvm::StringRef path) const = 0;
};

/// Adds a target that can be compiled for, and its library for the passes. The first one is the default.
void registerTarget(std::unique_ptr<Target> target);
/// In the order in which they were registered.
llvm::ArrayRef<std::unique_ptr<Target>> targets();
/// The target that a user calls `word`: by its name, or by the library's alone for the first chip. Or null.
const Target *findTarget(llvm::StringRef word);
/// The words that findTarget knows, for a message: "cpu, cuda, or cuda: with one of sm_80, sm_90".
std::string targetWords();

} // namespace tessera::target
#endif
