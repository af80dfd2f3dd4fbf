// Reads programs as text.
#ifndef TESSERA_LIB_DRIVER_READTEXT_H
#define TESSERA_LIB_DRIVER_READTEXT_H

#include "mlir/IR/BuiltinOps.h"

namespace tessera {

/// The module of a file of text; null, after an error was reported, where it holds none. MLIR's parser calls
/// itself for whatever is nested, so that nesting beyond what programs have is refused first.
mlir::OwningOpRef<mlir::ModuleOp> readText(const std::string &path, mlir::MLIRContext &context);

} // namespace tessera
#endif
