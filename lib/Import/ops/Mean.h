// Means, of reductions and of pooling.
#ifndef TESSERA_LIB_IMPORT_OPS_MEAN_H
#define TESSERA_LIB_IMPORT_OPS_MEAN_H

#include "lib/Import/Importer.h"

namespace tessera {

/// `sum` / `count`, and not times a reciprocal: the mean of equal numbers is that number. Where bf16 or f16
/// cannot hold the count they hold its reciprocal as well as anything.
inline mlir::Value meanOf(Emitter &e, mlir::Value sum, int64_t count) {
  mlir::Type type = elementOf(sum);
  if (!mlir::isa<mlir::FloatType>(type) ||
      roundTo(type, static_cast<double>(count)) == static_cast<double>(count))
    return e.binary<nn::DivOp>(sum, e.scalarLike(sum, static_cast<double>(count)));
  return e.binary<nn::MulOp>(sum, e.scalarLike(sum, 1.0 / static_cast<double>(count)));
}

} // namespace tessera
#endif
