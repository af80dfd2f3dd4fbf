// The nn dialect: the one header that others include.
#ifndef TESSERA_DIALECTS_NN_NN_H
#define TESSERA_DIALECTS_NN_NN_H

#include "dialects/nn/Builders.h"
#include "dialects/nn/FactorRule.h"
#include "dialects/nn/Work.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir {
class RewriterBase;
}

#include "dialects/nn/Interfaces.h.inc"
#include "dialects/nn/NNDialect.h.inc"
#include "dialects/nn/NNEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/nn/NNAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/nn/NNOps.h.inc"

#endif
