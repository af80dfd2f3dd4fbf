// What the library for GPUs has. Its functions keep what they need beside the program's memory
// (runtime/app/outside.h), so they take no workspace.

#include "lib/Target/Cuda/Library.h"
#include "lib/Target/Common/LibraryCalls.h"

namespace tessera {

namespace {
class CudaLibrary : public nn::Library {
public:
  llvm::StringRef name() const override { return "cuda"; }
  bool has(const nn::LibraryCall &call) const override { return target::isRuntimeCall(call); }
  // Measured with cuBLASLt 13.1 on an H100: docs/gpu.md.
  int64_t rowAlignment(const nn::LibraryCall &call) const override {
    return call.function == "gemm" && call.attrs.contains("dtype") ? 16 : 1;
  }
};
} // namespace

const nn::Library &cuda::library() {
  static const CudaLibrary only;
  return only;
}

void registerCudaLibrary() { nn::registerLibrary(cuda::library()); }

} // namespace tessera
