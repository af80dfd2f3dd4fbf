// The exec dialect: the one header that others include.
#ifndef TESSERA_DIALECTS_EXEC_EXEC_H
#define TESSERA_DIALECTS_EXEC_EXEC_H

#include "dialects/Tier.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/exec/ExecDialect.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/exec/ExecTypes.h.inc"
#define GET_OP_CLASSES
#include "dialects/exec/ExecOps.h.inc"

namespace tessera::exec {
/// Bytes [offset, offset + bytes) of `root`, the buffer that no other one has as its part.
struct BufferRange {
  BufferOp root;
  int64_t offset, bytes;
};
/// What a buffer, or a part of one, is in its root; no root where `buffer` comes from no buffer.
BufferRange rangeOf(mlir::Value buffer);

/// The name of an element type in the program description: "bool", "f32", "bf16", "i64", ...
std::string dtypeName(mlir::Type element);
} // namespace tessera::exec

#endif
