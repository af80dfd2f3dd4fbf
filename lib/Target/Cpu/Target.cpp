// The CPU as a target.

#include "lib/Target/Target.h"
#include "lib/Target/Cpu/Executable.h"
#include "lib/Target/Cpu/Library.h"

using namespace mlir;

namespace tessera {

namespace {
class CpuTarget : public target::Target {
public:
  std::string name() const override { return "cpu"; }
  const nn::Library &library() const override { return cpu::library(); }
  FailureOr<target::CompiledKernels> compileKernels(ArrayRef<target::ProgramKernels> programs,
                                                    bool twins) const override {
    return cpu::compileKernels(programs);
  }
  llvm::Error writeExecutable(StringRef description, const target::CompiledKernels &kernels,
                              StringRef path) const override {
    return cpu::writeExecutable(description, kernels, path);
  }
};
} // namespace

void registerCpuTarget() { target::registerTarget(std::make_unique<CpuTarget>()); }

} // namespace tessera
