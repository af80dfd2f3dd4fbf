// See Judges.h.
#include "lib/Driver/Judges.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace tessera;

static std::string bytecodeOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (module)
    (void)writeBytecodeToFile(module, stream); // fails for older versions of the format only
  return text;
}

static OwningOpRef<ModuleOp> moduleOf(StringRef bytecode, MLIRContext &context) {
  if (bytecode.empty())
    return {};
  return parseSourceString<ModuleOp>(bytecode, ParserConfig(&context, /*verifyAfterParse=*/false));
}

/// The model in another context.
struct Judges::Copy {
  Copy(const Judges &own)
      : context(makeContext()), model(own.model.options, *context),
        shallow(read(own), moduleOf(own.textBefore, *context)),
        judge(model, own.mayBeShallow ? &shallow : nullptr) {}

  std::unique_ptr<MLIRContext> context;
  Compilation model;
  Shallow shallow;
  Judge judge;

private:
  const Compilation &read(const Judges &own) {
    model.module = moduleOf(own.text, *context);
    model.next = own.model.next;
    model.machine = own.model.machine;
    model.modelHash = own.model.modelHash;
    return model;
  }
};

Judges::Judges(const Compilation &model, Shallow *shallow)
    : model(model), mayBeShallow(shallow), text(bytecodeOf(*model.module)),
      textBefore(shallow ? bytecodeOf(shallow->undifferentiated()) : "") {}

Judges::~Judges() = default;

std::unique_ptr<Judges::Copy> Judges::take() {
  {
    std::lock_guard lock(mutex);
    if (!idle.empty()) {
      std::unique_ptr<Copy> copy = std::move(idle.back());
      idle.pop_back();
      return copy;
    }
  }
  return std::make_unique<Copy>(*this);
}

void Judges::forEach(size_t count, llvm::function_ref<void(Judge &judge, size_t i)> work) {
  for (size_t i = 0; i < count; ++i)
    pool.async([this, work, i] {
      std::unique_ptr<Copy> copy = take();
      work(copy->judge, i);
      std::lock_guard lock(mutex);
      idle.push_back(std::move(copy));
    });
  pool.wait();
}
