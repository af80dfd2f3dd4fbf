// What an operator does, as far as its time depends on it: everything that estimates time asks here, and a
// machine for its rates (dialects/dist/Machine.h).
#ifndef TESSERA_DIALECTS_NN_WORK_H
#define TESSERA_DIALECTS_NN_WORK_H

#include "runtime/machine/workload.h"

namespace mlir {
class Operation;
}

namespace tessera::nn {

using WorkClass = rt::WorkClass;
using Work = rt::Workload;

/// The work of an operator of any dialect, for its (global or local) types.
Work workOf(mlir::Operation *op);

} // namespace tessera::nn
#endif
