// Runs the host twins of kernels compiled for a GPU, every thread of the grid, and assembles their PTX.

#ifndef TESSERA_TEST_UNIT_CUDA_CUDAKERNELTEST_H
#define TESSERA_TEST_UNIT_CUDA_CUDAKERNELTEST_H

#include "lib/Target/Cuda/Kernels.h"
#include "runtime/device/cuda/check/simt.h"
#include "test/unit/codegen/KernelTest.h"
#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/ExecutionUtils.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/TargetSelect.h"

namespace tessera::cuda {

/// One kernel with the name k, compiled for `chip` and for this machine.
class TestKernel {
public:
  explicit TestKernel(const std::string &text, const char *chip = "sm_80") {
    mlir::DialectRegistry registry;
    cpu::registerKernelDialects(registry);
    context.appendDialectRegistry(registry);
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    if (!module)
      return;
    auto compiled = compileKernels({{*module, ""}}, {chip, 1, /*twins=*/true});
    if (succeeded(compiled))
      kernel = compiled->kernels.at(0);
    if (kernel.twin)
      load();
  }
  bool ok() const { return twin != nullptr; }
  const std::string &ptx() const { return *kernel.object; }

  void run(std::vector<void *> buffers, std::vector<int64_t> scalars = {}) {
    std::unique_ptr<cpu::Buffer<char>> workspace;
    if (kernel.info.workspace) {
      workspace = std::make_unique<cpu::Buffer<char>>(kernel.info.workspace);
      buffers.push_back(workspace->data);
    }
    std::vector<void *> parameters;
    for (void *&buffer : buffers)
      parameters.push_back(&buffer);
    for (int64_t &scalar : scalars)
      parameters.push_back(&scalar);
    rt::cuda::check::runGrid("k", twin, parameters.data(),
                             (kernel.info.extent + kernel.launch.units - 1) / kernel.launch.units,
                             kernel.launch.threads);
  }

  mlir::MLIRContext context;
  cpu::CompiledKernel kernel;

private:
  void load() {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    jit = llvm::cantFail(llvm::orc::LLJITBuilder().create());
    llvm::orc::SymbolMap symbols;
    auto define = [&](const char *name, auto *function) {
      symbols[jit->mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(function),
                                             llvm::JITSymbolFlags::Exported};
    };
    define("tsr_simt_thread", tsr_simt_thread);
    define("tsr_simt_block", tsr_simt_block);
    define("tsr_simt_shuffle_xor", tsr_simt_shuffle_xor);
    define("tsr_simt_sync_warp", tsr_simt_sync_warp);
    define("tsr_simt_sync_block", tsr_simt_sync_block);
    llvm::cantFail(jit->getMainJITDylib().define(llvm::orc::absoluteSymbols(symbols)));
    jit->getMainJITDylib().addGenerator(
        llvm::cantFail(llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(
            jit->getDataLayout().getGlobalPrefix())));
    llvm::cantFail(jit->addObjectFile(
        llvm::MemoryBuffer::getMemBuffer(*kernel.twin, "twin", /*RequiresNullTerminator=*/false)));
    twin = llvm::cantFail(jit->lookup(kernel.symbol + "_twin")).toPtr<rt::cuda::check::Program>();
  }

  std::unique_ptr<llvm::orc::LLJIT> jit;
  rt::cuda::check::Program twin = nullptr;
};

/// What ptxas says about a kernel's PTX for `chip`, with its exit status before it; nothing where there is no
/// ptxas, in PATH or in /usr/local/cuda/bin.
inline std::optional<std::string> assemble(const std::string &ptx, const std::string &chip) {
  auto program = llvm::sys::findProgramByName("ptxas");
  if (!program)
    program = llvm::sys::findProgramByName("ptxas", {"/usr/local/cuda/bin"});
  if (!program)
    return std::nullopt;
  llvm::SmallString<128> source, messages;
  int descriptor;
  llvm::sys::fs::createTemporaryFile("kernel", "ptx", descriptor, source);
  llvm::raw_fd_ostream(descriptor, /*shouldClose=*/true) << ptx;
  llvm::sys::fs::createTemporaryFile("kernel", "txt", messages);
  std::string target = "-arch=" + chip;
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(""), llvm::StringRef(messages),
                                                llvm::StringRef(messages)};
  int status = llvm::sys::ExecuteAndWait(*program, {*program, target, "-v", source, "-o", "/dev/null"},
                                         std::nullopt, redirects);
  std::string text = "status " + std::to_string(status) + "\n";
  if (auto buffer = llvm::MemoryBuffer::getFile(messages))
    text += (*buffer)->getBuffer();
  llvm::sys::fs::remove(source);
  llvm::sys::fs::remove(messages);
  return text;
}

} // namespace tessera::cuda

#endif // TESSERA_TEST_UNIT_CUDA_CUDAKERNELTEST_H
