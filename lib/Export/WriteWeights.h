// Weights files: safetensors with a program's variables, or with a framework's parameters.
#ifndef TESSERA_LIB_EXPORT_WRITEWEIGHTS_H
#define TESSERA_LIB_EXPORT_WRITEWEIGHTS_H

#include "lib/Import/Weights.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"

namespace tessera {

/// A tensor to write. A transposed one (of two dimensions) gets rows and columns exchanged.
struct StoredTensor {
  std::string name;
  Weight weight;
  bool transposed = false;
};

/// Writes a safetensors file, streaming; it appears complete or not at all. Failure is reported.
llvm::LogicalResult writeSafetensors(const std::string &path, llvm::ArrayRef<StoredTensor> tensors,
                                     mlir::MLIRContext *context);

/// Writes the initial values of all variables of `module` with `init = "file"` to `path`. A variable without
/// a value in `weights` is an error.
llvm::LogicalResult writeWeights(const std::string &path, mlir::ModuleOp module, const WeightStore &weights);

/// What `trained`, read from `path`, holds for each parameter of `module`, by variable; aliases count,
/// parameters that start as zero may be missing. What else is missing or does not fit is reported.
llvm::FailureOr<llvm::MapVector<mlir::Operation *, Weight>>
weightsOf(mlir::ModuleOp module, const WeightStore &trained, llvm::StringRef path);
/// Writes those under the parameters' names and in their shapes in the framework that exported the model,
/// tied ones under each of their names.
llvm::LogicalResult writeTorchWeights(const std::string &path, mlir::ModuleOp module,
                                      const WeightStore &trained, llvm::StringRef trainedPath);

} // namespace tessera
#endif
