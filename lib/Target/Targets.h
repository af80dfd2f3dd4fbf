// The targets of this build: lib/Target/CMakeLists.txt lists their folders.
#ifndef TESSERA_LIB_TARGET_TARGETS_H
#define TESSERA_LIB_TARGET_TARGETS_H

namespace tessera {
/// Registers every target (lib/Target/Target.h), once.
void registerTargets();
/// Registers what their libraries have and nothing else of them, for who runs passes alone.
void registerTargetLibraries();
} // namespace tessera
#endif
