// Makes object code of kernels, for each level of the CPU.

#include "lib/Target/Cpu/CompileKernels.h"
#include "lib/Target/Common/Backend.h"
#include "lib/Target/Common/MachineCode.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include <set>

using namespace mlir;

namespace tessera::cpu {

namespace {
/// Object code with the kernel for every level.
class CpuBackend : public KernelBackend {
public:
  explicit CpuBackend(ArrayRef<CpuLevel> levels) : levels(levels) {}
  std::string key() const override {
    std::string text;
    for (CpuLevel level : levels)
      text += levelSuffix(level);
    return text;
  }
  llvm::Expected<KernelCode> emit(llvm::Module &module, StringRef implementation, StringRef symbol,
                                  const KernelUse &use) const override;

private:
  ArrayRef<CpuLevel> levels;
};
} // namespace

llvm::Expected<KernelCode> CpuBackend::emit(llvm::Module &module, StringRef implementation, StringRef name,
                                            const KernelUse &use) const {
  // One object for all levels: the levels' functions are optimised apart, each with the CPU in its
  // attributes, then linked.
  auto combined = std::make_unique<llvm::Module>(name, module.getContext());
  llvm::Linker linker(*combined);
  for (CpuLevel level : levels) {
    std::unique_ptr<llvm::Module> variant = llvm::CloneModule(module);
    wrapKernel(*variant, implementation, (name + levelSuffix(level)).str());
    if (llvm::Error error = optimise(*variant, level))
      return std::move(error);
    // The remainder is the C library's: rare, and exact for any quotient.
    static const std::set<std::string> allowed = {"memcpy", "memset", "memmove", "fmod", "fmodf"};
    for (const std::string &callee : externalCalls(*variant))
      if (!use.exact && !allowed.count(callee))
        return llvm::createStringError("it calls the function '" + callee +
                                       "', which is not vectorised; the compiler should have expanded it");
    combined->setTargetTriple(variant->getTargetTriple());
    combined->setDataLayout(variant->getDataLayout());
    if (linker.linkInModule(std::move(variant)))
      return llvm::createStringError("its variants could not be linked");
  }
  llvm::Expected<std::string> object = emitObjectCode(*combined, levels.back());
  if (!object)
    return object.takeError();
  return KernelCode{std::move(*object), ""};
}

FailureOr<CompiledKernels> compileKernels(ArrayRef<ProgramKernels> programs, const CpuOptions &options) {
  if (options.levels.empty())
    return ModuleOp(programs.front().functions).emitError("no CPU level to compile kernels for");
  FailureOr<CompiledKernels> result =
      target::compileKernels(programs, CpuBackend(options.levels), options.threads, options.plain);
  if (succeeded(result))
    result->levels = options.levels;
  return result;
}

} // namespace tessera::cpu
