// The program description: exec written down as JSON (docs/program-format.md).
#ifndef TESSERA_LIB_TARGET_PROGRAM_H
#define TESSERA_LIB_TARGET_PROGRAM_H

#include "mlir/IR/BuiltinOps.h"
#include <string>

namespace tessera {

struct ProgramInfo {
  std::string target = "cpu", dtype = "f32";
  std::string modelHash, planHash; // sha256 in hex
  std::string ownRates;            // the target's own machine, as a file's text
  std::string rates;               // what --machine said over it; empty: nothing
  std::string kernelPrefix;        // before the kernels' names, where an executable holds several programs'
  int64_t threads = 1;             // threads a rank that workspaces are sized for
};

/// The description of all programs of a module whose functions are exec programs. Fails, with a diagnostic,
/// on an operation that has no place in it.
mlir::FailureOr<std::string> describeProgram(mlir::ModuleOp module, const ProgramInfo &info);

} // namespace tessera
#endif
