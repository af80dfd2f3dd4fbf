// Who works on the units of a kernel on a GPU, and what becomes of its program.

#include "lib/Target/Common/Backend.h"
#include "lib/Target/Common/Warp.h"
#include "lib/Target/Cuda/Kernels.h"
#include "lib/Target/Cuda/Ptx.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace mlir;

namespace tessera::cuda {

/// Shared memory that a block may have on every GPU without asking for more.
static constexpr int64_t sharedBytes = 48 * 1024;

namespace {
class CudaBackend : public target::KernelBackend {
public:
  explicit CudaBackend(const CudaOptions &options) : options(options) {}
  std::string key() const override { return options.chip + (options.twins ? "_twins" : ""); }
  bool roundsToBF16() const override { return true; }
  bool callsLibrary() const override { return false; }
  target::Launch adapt(target::Kernel &kernel) const override;
  // Its entry knows how many units there are.
  std::string keyOfUse(const target::KernelUse &use) const override {
    std::string text;
    llvm::raw_string_ostream(text) << use.info.extent << " " << use.launch.threads << " " << use.launch.units
                                   << " " << use.launch.warpPerUnit << " " << use.launch.sharesColumns;
    return text;
  }
  llvm::Expected<target::KernelCode> emit(llvm::Module &module, StringRef implementation, StringRef symbol,
                                          const target::KernelUse &use) const override;

private:
  const CudaOptions &options;
};
} // namespace

/// Lets many threads of a block share each column of a kernel that adds up long ones: 16 neighbours are what
/// memory hands over at once, of 2 bytes each. Whether it did.
static bool shareColumns(target::Kernel &kernel) {
  constexpr int64_t columns = 16, sharers = 32;
  if (kernel.info.strategy != target::Strategy::Columns || kernel.info.extent % columns)
    return false;
  bool isLong = llvm::any_of(kernel.statements, [&](const target::Statement &s) {
    int64_t sum = 1;
    for (auto [extent, reduction] : llvm::zip(s.extents, s.reduction))
      sum *= reduction ? extent : 1;
    return sum >= 4 * sharers;
  });
  target::Kernel apart = kernel;
  if (!isLong || failed(target::scheduleColumnsApart(apart)) || !target::canShareUnits(apart) ||
      apart.temporaryBytes())
    return false;
  apart.columns = columns;
  apart.sharers = sharers;
  kernel = std::move(apart);
  return true;
}

target::Launch CudaBackend::adapt(target::Kernel &kernel) const {
  if (shareColumns(kernel))
    return {kernel.columns * kernel.sharers, kernel.columns, false, true};
  if (kernel.info.strategy == target::Strategy::Flat || kernel.info.strategy == target::Strategy::Columns) {
    // Neighbours in memory are neighbours among threads. Four elements a thread are loads of 128 bits.
    bool wide = kernel.info.strategy == target::Strategy::Flat && kernel.info.extent % 4 == 0;
    kernel.block = wide ? 4 : 1;
    return {256, 256 * kernel.block, false};
  }
  int64_t bytes = kernel.info.workspace ? 0 : kernel.temporaryBytes();
  if (!target::canShareUnits(kernel) || bytes > sharedBytes)
    return kernel.info.extent == 1 ? target::Launch{} : target::Launch{64, 64, false};
  kernel.warps = std::min<int64_t>(kernel.info.extent, bytes ? std::min<int64_t>(4, sharedBytes / bytes) : 4);
  return {kernel.warps * target::warpLanes, kernel.warps, true};
}

llvm::Expected<target::KernelCode> CudaBackend::emit(llvm::Module &module, StringRef implementation,
                                                     StringRef symbol, const target::KernelUse &use) const {
  if (llvm::Error error = addEntry(module, implementation, symbol, use.info, use.launch))
    return std::move(error);
  target::KernelCode code;
  if (options.twins) {
    std::unique_ptr<llvm::Module> host = llvm::CloneModule(module);
    llvm::Expected<std::string> twin = emitTwin(*host, symbol);
    if (!twin)
      return twin.takeError();
    code.twin = std::move(*twin);
  }
  llvm::Expected<std::string> ptx = emitPtx(module, symbol, options.chip, use.launch);
  if (!ptx)
    return ptx.takeError();
  code.object = std::move(*ptx);
  return code;
}

FailureOr<target::CompiledKernels> compileKernels(ArrayRef<target::ProgramKernels> programs,
                                                  const CudaOptions &options) {
  return target::compileKernels(programs, CudaBackend(options), options.threads);
}

} // namespace tessera::cuda
