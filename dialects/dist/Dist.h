// The dist dialect: the one header that others include.
#ifndef TESSERA_DIALECTS_DIST_DIST_H
#define TESSERA_DIALECTS_DIST_DIST_H

#include "dialects/Tier.h"
#include "dialects/dist/Axis.h"
#include "dialects/dist/Collective.h"
#include "dialects/dist/Layout.h"
#include "dialects/dist/Machine.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/dist/DistDialect.h.inc"
#include "dialects/dist/DistEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/dist/DistAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/dist/DistInterfaces.h.inc"
#include "dialects/dist/DistTypes.h.inc"
#define GET_OP_CLASSES
#include "dialects/dist/DistOps.h.inc"

namespace tessera::dist {

/// The collective that yields a value, itself or by its wait; null where another operator does.
CollectiveInterface collectiveOf(mlir::Value value);

/// The copy that a loop carries and that `next`, which its body yields, takes the place of; null where the
/// body does not yield it.
mlir::BlockArgument carriedBefore(mlir::Value next);

} // namespace tessera::dist

#endif
