// tessera-opt: runs the compiler's passes, one by one, on text.
#include "dialects/dist/Dist.h"
#include "dialects/exec/Exec.h"
#include "dialects/nn/NN.h"
#include "lib/Target/Targets.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/InitAllDialects.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "passes/RegisterPasses.h"

void registerPrintFactorRules();
void registerPrintWork();

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  registry.insert<tessera::nn::NNDialect, tessera::dist::DistDialect, tessera::exec::ExecDialect>();
  mlir::registerTransformsPasses();
  tessera::registerTesseraPasses();
  tessera::registerTargetLibraries();
  registerPrintFactorRules();
  registerPrintWork();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Tessera's passes\n", registry));
}
