// --tessera-print-work: what every operator does, as estimates of time see it, for tests.
#include "dialects/nn/NN.h"
#include "mlir/Pass/Pass.h"
#include "llvm/Support/Format.h"

using namespace mlir;

namespace {
struct PrintWork : PassWrapper<PrintWork, OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PrintWork)
  StringRef getArgument() const final { return "tessera-print-work"; }
  StringRef getDescription() const final {
    return "Prints the class, operations and bytes of every operator";
  }

  void runOnOperation() override {
    getOperation()->walk([](Operation *op) {
      if (!isa<tessera::nn::NNDialect>(op->getDialect()))
        return;
      tessera::nn::Work work = tessera::nn::workOf(op);
      llvm::outs() << op->getName() << ": " << workClassName(work.kind)
                   << llvm::format(", %g%s flops, %g bytes\n", work.flops, work.half ? " half" : "",
                                   work.bytes);
    });
  }
};
} // namespace

void registerPrintWork() { PassRegistration<PrintWork>(); }
