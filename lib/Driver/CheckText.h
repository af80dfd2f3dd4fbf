// What the phases take for granted of a program, and text from outside may lack.
#ifndef TESSERA_LIB_DRIVER_CHECKTEXT_H
#define TESSERA_LIB_DRIVER_CHECKTEXT_H

#include "lib/Driver/Options.h"

namespace tessera {

/// Checks a module that was read from text before `next` works on it; what the verifiers of its operators
/// cannot see. Reports what is wrong.
mlir::LogicalResult checkText(mlir::ModuleOp module, Phase next);

} // namespace tessera
#endif
