// What an operator does, as far as its time depends on it: everything that estimates time asks here, and a
// machine for its rates (dialects/dist/Machine.h).
#ifndef TESSERA_DIALECTS_NN_WORK_H
#define TESSERA_DIALECTS_NN_WORK_H

#include "runtime/machine/workload.h"

#include <optional>

namespace mlir {
class Operation;
class Type;
} // namespace mlir

namespace tessera::nn {

using WorkClass = rt::WorkClass;
using Work = rt::Workload;

/// The work of an operator of any dialect, for its (global or local) types.
Work workOf(mlir::Operation *op);
/// Bytes that it reads where these are not its operands', each once: less of what it reads a part of.
std::optional<double> bytesReadBy(mlir::Operation *op);
/// Bytes of a tensor; 0 for other types.
double bytesOf(mlir::Type type);

} // namespace tessera::nn
#endif
