// Parts of the IR as the program description has them.
#ifndef TESSERA_LIB_TARGET_DESCRIPTIONVALUES_H
#define TESSERA_LIB_TARGET_DESCRIPTIONVALUES_H

#include "dialects/dist/Dist.h"
#include "runtime/program/description.h"

namespace tessera::description {

rt::DType dtypeOf(mlir::Type element);
rt::Axes axesOf(llvm::ArrayRef<dist::AxisRef> axes);
/// By dimension its atoms; without flat storage, which a variable has beside it.
rt::Layout layoutOf(const dist::Layout &layout);
/// Attributes of library calls: numbers, strings, booleans and lists of them.
nlohmann::json valueOf(mlir::Attribute attr);
/// Bytes of the tiers: the device's, and of those below it under their names.
rt::PerTier<rt::MemoryFigures> figuresOf(mlir::DictionaryAttr memory);

} // namespace tessera::description
#endif
