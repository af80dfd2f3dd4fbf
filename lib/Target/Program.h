// The program description (docs/program-format.md): what exec says, as the runtime has it.
#ifndef TESSERA_LIB_TARGET_PROGRAM_H
#define TESSERA_LIB_TARGET_PROGRAM_H

#include "mlir/IR/BuiltinOps.h"
#include "runtime/program/description.h"
#include <string>

namespace tessera {

struct ProgramInfo {
  std::string target = "cpu", dtype = "f32";
  std::string modelHash, planHash;      // sha256 in hex
  rt::MachineFile ownRates;             // the target's own machine
  std::optional<rt::MachineFile> rates; // what --machine said over it
  std::string kernelPrefix;             // before kernels' names, where an executable has several programs'
  int64_t threads = 1;                  // threads a rank that workspaces are sized for
};

/// The description of all programs of a module whose functions are exec programs. Fails, with a diagnostic,
/// on an operation that has no place in it. Throws rt::Error for what the runtime has no name for.
mlir::FailureOr<rt::Description> describeProgram(mlir::ModuleOp module, const ProgramInfo &info);

} // namespace tessera
#endif
