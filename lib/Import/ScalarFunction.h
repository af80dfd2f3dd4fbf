// The formula of an elementwise operator, executed on known values.
#ifndef TESSERA_LIB_IMPORT_SCALARFUNCTION_H
#define TESSERA_LIB_IMPORT_SCALARFUNCTION_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

namespace tessera {

/// A number of either kind; integers and bool as HostTensor stores them.
union Scalar {
  double f;
  int64_t i;
};

/// What the operator's lowering computes of one element, so that a value known at import is that of the
/// program. Floating numbers are computed as doubles, whatever their type, and rounded where the formula
/// rounds.
class ScalarFunction {
public:
  /// The formula of `op`; none for an operator that is not elementwise, or in whose formula something cannot
  /// be executed.
  static std::optional<ScalarFunction> of(mlir::Operation *op);

  /// The result of arguments as HostTensor has them, not yet rounded or wrapped to the result's type. Not for
  /// several threads.
  Scalar operator()(llvm::ArrayRef<Scalar> arguments);

private:
  using Compute = Scalar (*)(const Scalar *operands, const mlir::Type &from, const mlir::Type &to);
  /// One operator of the formula; values are numbered, arguments first.
  struct Step {
    Compute compute;
    int result, operands[3];
    mlir::Type from, to;
  };
  bool add(mlir::Operation &op);

  llvm::SmallVector<mlir::Type> types; ///< of the formula's arguments
  llvm::DenseMap<mlir::Value, int> numbers;
  std::vector<Step> steps;
  std::vector<Scalar> values;
  int result = 0;
};

} // namespace tessera
#endif
