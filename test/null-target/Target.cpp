// See Target.h. Its library has other functions than the CPU's, and takes another workspace; its kernels stay
// LLVM IR.
#include "test/null-target/Target.h"
#include "lib/Target/Common/Backend.h"
#include "lib/Target/Common/Link.h"
#include "lib/Target/Target.h"

using namespace mlir;
using namespace tessera;

namespace {
struct NullLibrary : nn::Library {
  StringRef name() const override { return "null"; }
  // No attention; but products and convolutions of every type.
  bool has(const nn::LibraryCall &call) const override {
    return !StringRef(call.function).starts_with("attention");
  }
  int64_t workspace(const nn::LibraryCall &call, int64_t threads) const override {
    return call.function == "gemm" ? 64 * threads : 0;
  }
};

struct NullBackend : target::KernelBackend {
  std::string key() const override { return "null"; }
  llvm::Expected<target::KernelCode> emit(llvm::Module &module, StringRef implementation, StringRef symbol,
                                          const target::KernelUse &use) const override {
    target::KernelCode code;
    llvm::raw_string_ostream(code.object) << module;
    return code;
  }
};

struct NullTarget : target::Target {
  std::string name() const override { return "null"; }
  const nn::Library &library() const override { return functions; }
  FailureOr<target::CompiledKernels> compileKernels(ArrayRef<target::ProgramKernels> programs,
                                                    bool twins) const override {
    return target::compileKernels(programs, NullBackend(), /*threads=*/1);
  }
  StringRef textExtension() const override { return ".ll"; }
  llvm::Error writeExecutable(StringRef description, const target::CompiledKernels &kernels,
                              StringRef path) const override {
    llvm::Expected<std::string> main = target::emitMainObject(
        description, "tsr_main_null", [&](llvm::Module &, function_ref<llvm::Constant *(StringRef)> text) {
          std::vector<llvm::Constant *> names;
          for (auto [name, kernel] : kernels.names())
            names.push_back(text(name));
          return names;
        });
    if (!main)
      return main.takeError();
    target::LinkOptions options;
    options.deviceLibrary = "libtessera-rt-null.a";
    return target::linkExecutable({StringRef(*main)}, path, options);
  }

  NullLibrary functions;
};
} // namespace

void tessera::registerNullTarget() { target::registerTarget(std::make_unique<NullTarget>()); }
