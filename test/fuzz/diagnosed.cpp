#include "test/fuzz/diagnosed.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace tessera;

// LLVM's allocators hide what they have not given out yet, in the sanitized code only: a library without
// sanitizers does not bring to light what it takes.
extern "C" const char *__asan_default_options() { return "allow_user_poisoning=0"; }
extern "C" const char *__ubsan_default_options() {
  return "halt_on_error=1:print_stacktrace=1:suppressions=" TESSERA_FUZZ_SUPPRESSIONS;
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
