// What elementwise operators compute of one element.
#ifndef TESSERA_DIALECTS_NN_FORMULA_H
#define TESSERA_DIALECTS_NN_FORMULA_H

#include "mlir/IR/Builders.h"

namespace tessera::nn {

/// Emits, in arith and math, the formula of the elementwise operator `op` on `scalars`, one for each operand,
/// whose integers are without signs: what its lowering has in the body. Null for an operator that is not
/// elementwise.
mlir::Value scalarFormula(mlir::Operation *op, mlir::OpBuilder &builder, mlir::ValueRange scalars);

} // namespace tessera::nn
#endif
