// The way of a model through the phases.
#ifndef TESSERA_LIB_DRIVER_COMPILE_H
#define TESSERA_LIB_DRIVER_COMPILE_H

#include "lib/Driver/Options.h"
#include "lib/Target/Cpu/Kernels.h"
#include "mlir/IR/OwningOpRef.h"

namespace tessera {

/// A context with every dialect that the phases use.
std::unique_ptr<mlir::MLIRContext> makeContext();

/// A model on its way: the module, its initial values, and what the phases left.
struct Compilation {
  CompileOptions options;
  mlir::MLIRContext &context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  WeightStore weights;
  std::string modelHash, planHash;
  std::string description;            // after Lower
  std::optional<cpu::CompiledKernels> kernels; // after Lower
  std::vector<std::pair<std::string, double>> seconds; // of each phase

  Compilation(CompileOptions options, mlir::MLIRContext &context) : options(std::move(options)), context(context) {}
  /// Runs the phases from options.from to min(options.to, last). Problems are reported as diagnostics.
  mlir::LogicalResult run(Phase last);

private:
  mlir::LogicalResult load();
  mlir::LogicalResult passes(Phase phase);
  mlir::LogicalResult lower();
  mlir::LogicalResult dump(Phase phase);
  int64_t threads() const;
};

/// Writes the executable and the weights file beside it; both appear complete or not at all.
mlir::LogicalResult link(Compilation &compilation);

/// `tessera compile`: everything, with dumps and reports as the options say.
mlir::LogicalResult compile(const CompileOptions &options);

} // namespace tessera
#endif
