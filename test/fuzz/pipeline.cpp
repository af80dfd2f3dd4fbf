#include "test/fuzz/pipeline.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace tessera;

MLIRContext &fuzz::contextForNextInput() {
  constexpr int inputsAContext = 500;
  static std::unique_ptr<MLIRContext> context;
  static int inputs = 0;
  if (!context || ++inputs % inputsAContext == 0)
    context = makeContext();
  return *context;
}

void fuzz::expectDiagnosed(MLIRContext &context, llvm::function_ref<LogicalResult()> body) {
  bool reported = false;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    std::string text = diagnostic.str(); // printing must work, too
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error) {
      reported = true;
      if (getenv("TESSERA_FUZZ_VERBOSE"))
        llvm::errs() << "error: " << text << "\n";
    }
    return success();
  });
  LogicalResult result = body();
  if (failed(result) != reported) {
    llvm::errs() << (reported ? "an error was reported, yet the compilation went on\n" : "a failure was not diagnosed\n");
    std::abort();
  }
}

CompileOptions fuzz::optionsFor(const uint8_t *data, size_t size) {
  uint64_t bits = llvm::xxh3_64bits(llvm::ArrayRef<uint8_t>(data, size));
  CompileOptions options;
  options.threads = 1 + (bits & 1);
  options.assign.tp = bits & 2 ? 2 : 1;
  options.assign.dp = bits & 4 ? 2 : 1;
  if (bits & 8)
    options.optimizer = bits & 16 ? "adamw" : "sgd-momentum";
  if (bits & 32 && bits & 8)
    options.assign.microbatches = 2;
  return options;
}

void fuzz::compileToMemory(const CompileOptions &options) {
  MLIRContext &context = contextForNextInput();
  Compilation compilation(options, context);
  expectDiagnosed(context, [&] { return compilation.run(Phase::Memory); });
}
