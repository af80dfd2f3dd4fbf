// See Executable.h.

#include "lib/Target/Cuda/Executable.h"
#include "llvm/IR/IRBuilder.h"

using namespace llvm;

namespace tessera::cuda {

Error writeExecutable(StringRef description, const target::CompiledKernels &kernels, StringRef path) {
  Expected<std::string> main = target::emitMainObject(
      description, "tsr_main_cuda", [&](Module &module, function_ref<Constant *(StringRef)> text) {
        IRBuilder<> b(module.getContext());
        auto *entry =
            StructType::get(module.getContext(), {b.getPtrTy(), b.getPtrTy(), b.getPtrTy(), b.getInt64Ty(),
                                                  b.getInt64Ty()}); // tsr_gpu_kernel
        std::vector<Constant *> table;
        StringMap<Constant *> programs; // equal kernels share their text
        for (auto [name, kernel] : kernels.names()) {
          Constant *&ptx = programs[kernel->symbol];
          if (!ptx)
            ptx = text(*kernel->object);
          table.push_back(ConstantStruct::get(entry, {text(name), text(kernel->symbol), ptx,
                                                      b.getInt64(kernel->launch.threads),
                                                      b.getInt64(kernel->launch.units)}));
        }
        return table;
      });
  if (!main)
    return main.takeError();
  return target::linkExecutable({StringRef(*main)}, path);
}

} // namespace tessera::cuda
