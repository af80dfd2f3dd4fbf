// GPUs of NVIDIA as targets, one a chip that PTX is made for.

#include "lib/Target/Target.h"
#include "lib/Target/Cuda/Executable.h"
#include "lib/Target/Cuda/Kernels.h"
#include "lib/Target/Cuda/Library.h"

using namespace mlir;

namespace tessera {

namespace {
class CudaTarget : public target::Target {
public:
  explicit CudaTarget(StringRef chip) : chip(chip) {}
  std::string name() const override { return "cuda:" + chip; }
  const nn::Library &library() const override { return cuda::library(); }
  dist::Machine machine() const override { return cuda::machineOf(chip); }
  FailureOr<target::CompiledKernels> compileKernels(ArrayRef<target::ProgramKernels> programs,
                                                    bool twins) const override {
    cuda::CudaOptions options;
    options.chip = chip;
    options.twins = twins;
    return cuda::compileKernels(programs, options);
  }
  bool hasTwins() const override { return true; }
  StringRef textExtension() const override { return ".ptx"; }
  llvm::Error writeExecutable(StringRef description, const target::CompiledKernels &kernels,
                              StringRef path) const override {
    return cuda::writeExecutable(description, kernels, path);
  }

private:
  const std::string chip;
};
} // namespace

void registerCudaTarget() {
  for (StringRef chip : cuda::chips())
    target::registerTarget(std::make_unique<CudaTarget>(chip));
}

} // namespace tessera
