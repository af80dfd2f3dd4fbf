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
    return "Prints the class, operations, bytes and shape of every operator";
  }

  void runOnOperation() override {
    getOperation()->walk([](Operation *op) {
      if (!isa<tessera::nn::NNDialect>(op->getDialect()))
        return;
      tessera::nn::Work work = tessera::nn::workOf(op);
      const tessera::rt::ProductShape &shape = work.shape;
      llvm::outs() << op->getName() << ": " << workClassName(work.kind)
                   << llvm::format(", %g%s flops, %g bytes", work.flops,
                                   work.type == tessera::rt::DType::F32 ? "" : " half", work.bytes);
      if (shape.isKnown())
        llvm::outs() << llvm::format(", %g of %g x %g x %g", shape.count, shape.m, shape.n, shape.k);
      if (work.functions > 0)
        llvm::outs() << llvm::format(", %g functions", work.functions);
      llvm::outs() << "\n";
    });
  }
};
} // namespace

void registerPrintWork() { PassRegistration<PrintWork>(); }
