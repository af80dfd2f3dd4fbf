// Whether two values of a scheduled program are the same, by how they were made.
#ifndef TESSERA_PASSES_SCHEDULE_SAMEVALUE_H
#define TESSERA_PASSES_SCHEDULE_SAMEVALUE_H

#include "mlir/IR/Operation.h"

namespace tessera {

/// The attributes that decide what an operator computes.
mlir::DictionaryAttr computing(mlir::Operation *op);

/// What a value of which another one is a copy, or made again, is first; itself for all others.
using Original = llvm::function_ref<mlir::Value(mlir::Value)>;

/// Whether both are one value, reads of one variable, or made of such by the same views, conversions and
/// collectives. Whether the variable was written between the reads is not looked at.
bool isSameValue(mlir::Value a, mlir::Value b, Original original);

/// The variable that a value is read of, or gathered, viewed or converted from alone; empty without one.
llvm::StringRef variableBehind(mlir::Value value);

} // namespace tessera
#endif
