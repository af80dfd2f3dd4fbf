// --tessera-print-factor-rules: the factor rule of every operator as a remark, for tests.
#include "dialects/nn/NN.h"
#include "mlir/Pass/Pass.h"
#include "llvm/Support/Format.h"

using namespace mlir;

namespace {
struct PrintFactorRules : PassWrapper<PrintFactorRules, OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PrintFactorRules)
  StringRef getArgument() const final { return "tessera-print-factor-rules"; }
  StringRef getDescription() const final {
    return "Prints the factor rule of every operator, and what its padding must hold";
  }

  void runOnOperation() override {
    getOperation()->walk([](tessera::nn::FactorOpInterface op) {
      tessera::nn::FactorRule rule = op.getFactorRule();
      llvm::outs() << op->getName() << ": " << rule.str();
      for (auto [i, dims] : llvm::enumerate(rule.operands))
        for (int factor : dims)
          if (factor >= 0)
            if (auto value = op.getNeutral(i, factor))
              llvm::outs() << " neutral(" << i << "," << rule.factors[factor].name
                           << ")=" << llvm::format("%g", *value);
      llvm::outs() << "\n";
    });
  }
};
} // namespace

void registerPrintFactorRules() { PassRegistration<PrintFactorRules>(); }
