#include "test/fuzz/diagnosed.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace tessera;

MLIRContext &fuzz::contextForNextInput(llvm::function_ref<std::unique_ptr<MLIRContext>()> make) {
  constexpr int inputsAContext = 500;
  static std::unique_ptr<MLIRContext> context;
  static int inputs = 0;
  if (!context || ++inputs % inputsAContext == 0)
    context = make();
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
    llvm::errs() << (reported ? "an error was reported, yet the compilation went on\n"
                              : "a failure was not diagnosed\n");
    std::abort();
  }
}
