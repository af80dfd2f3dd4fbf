// Every pass of the compiler by its command-line name.
#ifndef TESSERA_PASSES_REGISTERPASSES_H
#define TESSERA_PASSES_REGISTERPASSES_H

namespace tessera {
/// Registers the passes of all phases with MLIR's registry.
void registerTesseraPasses();
} // namespace tessera
#endif
