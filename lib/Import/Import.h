// ONNX files to nn modules.
#ifndef TESSERA_LIB_IMPORT_IMPORT_H
#define TESSERA_LIB_IMPORT_IMPORT_H

#include "lib/Import/Annotations.h"
#include "lib/Import/Weights.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace tessera {

struct ImportOptions {
  /// Values of symbolic dimensions.
  std::map<std::string, int64_t> binds;
  /// `--trainable GLOB` (true) and `--frozen GLOB` (false) in the order given, over parameters' names and
  /// sources; the last match wins.
  std::vector<std::pair<bool, std::string>> trainable;
  /// Take the file as it is: do not restore parameters that the exporter merged or dropped.
  bool asWritten = false;
  /// External data may be missing, where no initial value is needed: such parameters have none in the
  /// weights.
  bool allowAbsentData = false;
};

/// Imports the model at `path`: a module with one `nn.variable` for each parameter and each constant over 1
/// KiB, and `func.func @infer` of nn operators. Arguments have the attributes `nn.name` and `nn.kind`,
/// results `nn.name`; locations are those of Location.h. The initial values go into `weights`.
/// Problems of the file are reported as diagnostics; notes about restored and lost parameters are remarks and
/// warnings. `nodes`, where given, gets the tensors of all nodes.
llvm::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importOnnx(const std::string &path, const ImportOptions &options, mlir::MLIRContext &context,
           WeightStore &weights, std::vector<NodeTensors> *nodes = nullptr);

} // namespace tessera
#endif
