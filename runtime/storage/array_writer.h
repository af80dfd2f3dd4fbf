// Writing an array that is spread over ranks into one file, every rank its own part.
#pragma once

#include "runtime/core/dtype.h"
#include "runtime/storage/file.h"
#include "runtime/storage/layout.h"

namespace tessera::rt {

/// Writes what the rank at `coordinates` holds of an array that begins at byte `offset` of the file and is
/// stored in C order as `fileType` there, `type` in memory. Padding is not written.
void writeLocal(const File &file, uint64_t offset, DType fileType, const Layout &layout,
                const std::optional<Flat> &flat, const Mesh &mesh, const Coordinates &coordinates, DType type,
                const void *data);

} // namespace tessera::rt
