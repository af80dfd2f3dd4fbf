// The phases of the compiler on one input.
#pragma once

#include "lib/Driver/Compile.h"
#include "test/fuzz/diagnosed.h"

namespace tessera::fuzz {

/// Options of a compilation, chosen by the input's bytes: with or without training, and a mesh.
CompileOptions optionsFor(const uint8_t *data, size_t size);

/// Compiles as far as `last`.
void compileAsFarAs(Phase last, const CompileOptions &options);

} // namespace tessera::fuzz
