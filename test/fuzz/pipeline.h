// Runs the compiler on one input and holds it to its contract: a failure is diagnosed, and nothing else happens.
#pragma once

#include "lib/Driver/Compile.h"

namespace tessera::fuzz {

/// A context that outlives many inputs, but not all: what MLIR makes unique in it is never given back.
mlir::MLIRContext &contextForNextInput();

/// Runs `body`. Aborts when it fails without an error diagnostic, or reports one and yet succeeds.
void expectDiagnosed(mlir::MLIRContext &context, llvm::function_ref<mlir::LogicalResult()> body);

/// Options of a compilation, chosen by the input's bytes: with or without training, and a mesh.
CompileOptions optionsFor(const uint8_t *data, size_t size);

/// Compiles the file as far as the memory plan.
void compileToMemory(const CompileOptions &options);

} // namespace tessera::fuzz
