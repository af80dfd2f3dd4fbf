// Parts of the IR as JSON, for the program description.
#ifndef TESSERA_LIB_TARGET_DESCRIPTIONVALUES_H
#define TESSERA_LIB_TARGET_DESCRIPTIONVALUES_H

#include "dialects/dist/Dist.h"
#include "llvm/Support/JSON.h"

namespace tessera::description {

/// `[[NAME, PRE, SIZE], ...]`.
llvm::json::Array axesOf(llvm::ArrayRef<dist::AxisRef> axes);
/// By dimension a list of its atoms.
llvm::json::Array layoutOf(const dist::Layout &layout);
llvm::json::Array shapeOf(llvm::ArrayRef<int64_t> shape);
/// Attributes of library calls: numbers, strings, booleans and lists of them.
llvm::json::Value valueOf(mlir::Attribute attr);
/// Bytes of a tier, and of those below it under their names.
llvm::json::Object figuresOf(mlir::DictionaryAttr memory);

} // namespace tessera::description
#endif
