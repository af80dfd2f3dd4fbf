// The initial values of a model's variables, and the safetensors file that holds them.
#ifndef TESSERA_LIB_IMPORT_WEIGHTS_H
#define TESSERA_LIB_IMPORT_WEIGHTS_H

#include "lib/Import/OnnxGraph.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/MapVector.h"

namespace tessera {

/// Where a variable's initial bytes are: in a mapped file, in memory, or nowhere because they are zeros.
struct Weight {
  mlir::Type elementType;
  std::vector<int64_t> shape;
  Bytes bytes; ///< little-endian, row-major; unused when `zero`
  bool zero = false;
};

/// A tensor to write. A transposed one (of two dimensions) gets rows and columns exchanged.
struct StoredTensor {
  std::string name;
  Weight weight;
  bool transposed = false;
};

/// Writes a safetensors file, streaming; it appears complete or not at all. Failure is reported.
llvm::LogicalResult writeSafetensors(const std::string &path, llvm::ArrayRef<StoredTensor> tensors,
                                     mlir::MLIRContext *context);

/// Variable name to its initial value.
class WeightStore {
public:
  void add(const std::string &name, Weight weight) { weights[name] = std::move(weight); }
  const Weight *find(llvm::StringRef name) const {
    auto found = weights.find(name.str());
    return found == weights.end() ? nullptr : &found->second;
  }
  /// Reads the header of a safetensors file and maps its tensors; failure is reported at `context`'s unknown
  /// location.
  llvm::LogicalResult addSafetensors(const std::string &path, mlir::MLIRContext *context);
  /// Writes the initial values of all variables of `module` with `init = "file"` to `path`. A
  /// variable without a value here is an error.
  llvm::LogicalResult writeSafetensors(const std::string &path, mlir::ModuleOp module) const;
  const std::map<std::string, Weight> &all() const { return weights; }

private:
  std::map<std::string, Weight> weights;
};

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
