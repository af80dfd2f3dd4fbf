// Runs a part of the compiler on one input and holds it to its contract: a failure is diagnosed, and nothing
// else happens.
#pragma once

#include "mlir/IR/MLIRContext.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace tessera::fuzz {

/// What inputs share, a context or what lives in one: it outlives many of them, but not all, for what MLIR
/// makes unique in a context is never given back. `make` makes a new one.
template <typename State> State &stateForNextInput(llvm::function_ref<std::unique_ptr<State>()> make) {
  constexpr int inputsAState = 500;
  static std::unique_ptr<State> state;
  static int inputs = 0;
  if (!state || ++inputs % inputsAState == 0) {
    state.reset();
    state = make();
  }
  return *state;
}

/// Runs `body`. Aborts when it fails without an error diagnostic, or reports one and yet succeeds.
void expectDiagnosed(mlir::MLIRContext &context, llvm::function_ref<mlir::LogicalResult()> body);

} // namespace tessera::fuzz
