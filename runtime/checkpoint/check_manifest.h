// What must hold of a manifest beyond its form.
#pragma once

#include "runtime/checkpoint/manifest.h"

namespace tessera::rt {

/// Throws Error for a file whose name leads out of the folder, for pieces that overlap in a file or leave a
/// part of it to nobody, and for variables that are there twice, not whole, or with an element twice. `what`
/// names the manifest.
void checkManifest(const Manifest &manifest, const std::string &what);

} // namespace tessera::rt
