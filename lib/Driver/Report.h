// What the compiler tells its user: diagnostics, timing, the report.
#ifndef TESSERA_LIB_DRIVER_REPORT_H
#define TESSERA_LIB_DRIVER_REPORT_H

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/LogicalResult.h"
#include "llvm/Support/raw_ostream.h"
#include <string>
#include <vector>

namespace tessera {

/// Prints diagnostics in the form of the contract: `error: ...` first, with the ONNX node or the place in a
/// file, then notes. Warnings and notes wait for a first error, or for the end of the context.
void installDiagnostics(mlir::MLIRContext &context);

/// Where compile time went, one line a phase.
void printTiming(const std::vector<std::pair<std::string, double>> &seconds, llvm::raw_ostream &os);

/// Writes a text to a file, whole or not at all, or to standard output ("-"); a device is written as it is.
llvm::LogicalResult writeText(mlir::MLIRContext &context, const std::string &path, llvm::StringRef text);

struct Compilation;
/// --report FILE.json: mesh, operators, moves, parameters, memory, bytes sent and the seconds of the phases.
llvm::LogicalResult writeReport(const Compilation &compilation, const std::string &path);

} // namespace tessera
#endif
