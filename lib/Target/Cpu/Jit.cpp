// Loads compiled kernels into this process.

#include "lib/Target/Cpu/Jit.h"
#include "llvm/ExecutionEngine/Orc/ExecutionUtils.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/TargetSelect.h"

using namespace mlir;

namespace tessera::cpu {

JitKernels::JitKernels() = default;
JitKernels::~JitKernels() = default;

FailureOr<std::unique_ptr<JitKernels>> JitKernels::create(ModuleOp module, CpuOptions options) {
  FailureOr<CpuLevel> host = hostLevel();
  if (failed(host))
    return module.emitError("this machine's CPU is below x86-64-v3 (AVX2 and FMA), which kernels need");
  if (options.levels.empty())
    options.levels = {*host};
  CpuLevel level = options.levels.front();
  if (options.levels.size() != 1 || level > *host)
    return module.emitError(
        "kernels can be loaded for one level that this machine's CPU has; it has no AVX-512");
  FailureOr<CompiledKernels> compiled = compileKernels({{module, ""}}, options);
  if (failed(compiled))
    return failure();
  std::unique_ptr<JitKernels> result(new JitKernels);
  result->kernels = std::move(*compiled);
  // The session reports apart why a function cannot be made.
  auto reasons = std::make_shared<std::string>();
  auto fail = [&](llvm::Error error) {
    std::string what = llvm::toString(std::move(error));
    return module.emitError("kernels cannot be loaded: ") << (reasons->empty() ? what : *reasons);
  };
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  llvm::Expected<std::unique_ptr<llvm::orc::LLJIT>> jit = llvm::orc::LLJITBuilder().create();
  if (!jit)
    return fail(jit.takeError());
  result->jit = std::move(*jit);
  result->jit->getExecutionSession().setErrorReporter([reasons](llvm::Error error) {
    *reasons += (reasons->empty() ? "" : "; ") + llvm::toString(std::move(error));
  });
  // memcpy and memset, and for f64 kernels the C library's math functions.
  auto generator = llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(
      result->jit->getDataLayout().getGlobalPrefix());
  if (!generator)
    return fail(generator.takeError());
  result->jit->getMainJITDylib().addGenerator(std::move(*generator));
  for (const CompiledKernel *kernel : result->kernels.distinctCode())
    if (llvm::Error error = result->jit->addObjectFile(llvm::MemoryBuffer::getMemBuffer(
            *kernel->object, kernel->symbol, /*RequiresNullTerminator=*/false)))
      return fail(std::move(error));
  for (const CompiledKernel &kernel : result->kernels.kernels) {
    auto address = result->jit->lookup(kernel.symbol + levelSuffix(level).str());
    if (!address)
      return fail(address.takeError());
    result->functions.push_back(address->toPtr<KernelFunction>());
  }
  return result;
}

KernelFunction JitKernels::lookup(StringRef name) const {
  auto it = kernels.byName.find(name);
  return it == kernels.byName.end() ? nullptr : functions[it->second];
}

const KernelInfo *JitKernels::info(StringRef name) const {
  auto it = kernels.byName.find(name);
  return it == kernels.byName.end() ? nullptr : &kernels.kernels[it->second].info;
}

} // namespace tessera::cpu
