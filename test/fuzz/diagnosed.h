// Runs a part of the compiler on one input and holds it to its contract: a failure is diagnosed, and nothing
// else happens.
#pragma once

#include "mlir/IR/MLIRContext.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace tessera::fuzz {

/// A context that outlives many inputs, but not all: what MLIR makes unique in it is never given back. `make`
/// makes a new one.
mlir::MLIRContext &contextForNextInput(llvm::function_ref<std::unique_ptr<mlir::MLIRContext>()> make);

/// Runs `body`. Aborts when it fails without an error diagnostic, or reports one and yet succeeds.
void expectDiagnosed(mlir::MLIRContext &context, llvm::function_ref<mlir::LogicalResult()> body);

} // namespace tessera::fuzz
