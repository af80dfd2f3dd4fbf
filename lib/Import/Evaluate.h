// Evaluates nn operators on host tensors.
#ifndef TESSERA_LIB_IMPORT_EVALUATE_H
#define TESSERA_LIB_IMPORT_EVALUATE_H

#include "lib/Import/HostTensor.h"
#include "mlir/IR/Operation.h"

namespace tessera {

/// The result of `op` on known operands; none for operators that are not evaluated (products of floating
/// matrices, normalisations) and for results above `maxHostElements`.
std::optional<HostTensor> evaluate(mlir::Operation *op, llvm::ArrayRef<const HostTensor *> operands);

} // namespace tessera
#endif
