// What ranks compute in vain.
#ifndef TESSERA_PASSES_PROPAGATE_WASTE_H
#define TESSERA_PASSES_PROPAGATE_WASTE_H

#include "dialects/dist/Axis.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera {

/// Warns when all ranks together compute more than 4/3 of what one rank would, because blocks are padded or
/// several ranks do the same, and names the operators that cost most. Work is counted in loop iterations, so
/// products count most. `func` has layouts in its types.
void warnOfWaste(mlir::func::FuncOp func, const dist::Mesh &mesh, int64_t micro);

} // namespace tessera
#endif
