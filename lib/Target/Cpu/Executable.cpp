// See Executable.h.

#include "lib/Target/Cpu/Executable.h"
#include "llvm/IR/IRBuilder.h"

using namespace llvm;

namespace tessera::cpu {

Expected<std::string> emitMainObject(StringRef description, const CompiledKernels &kernels) {
  return target::emitMainObject(
      description, "tsr_main", [&](Module &module, function_ref<Constant *(StringRef)> text) {
        IRBuilder<> b(module.getContext());
        PointerType *pointer = b.getPtrTy();
        auto *entry = StructType::get(module.getContext(), {pointer, b.getInt32Ty(), pointer}); // tsr_kernel
        std::vector<Constant *> table;
        for (auto [name, kernel] : kernels.names())
          for (CpuLevel level : kernels.levels) {
            FunctionCallee code =
                module.getOrInsertFunction((kernel->symbol + levelSuffix(level)).str(), b.getVoidTy(),
                                           pointer, pointer, b.getInt64Ty(), b.getInt64Ty());
            table.push_back(ConstantStruct::get(entry, {text(name), b.getInt32(level == CpuLevel::V4 ? 4 : 3),
                                                        cast<Constant>(code.getCallee())}));
          }
        return table;
      });
}

Error writeExecutable(StringRef description, const CompiledKernels &kernels, StringRef path,
                      const LinkOptions &options) {
  Expected<std::string> main = emitMainObject(description, kernels);
  if (!main)
    return main.takeError();
  SmallVector<StringRef> objects = {*main};
  for (const CompiledKernel *kernel : kernels.distinctCode())
    objects.push_back(*kernel->object);
  return linkExecutable(objects, path, options);
}

} // namespace tessera::cpu
