// Bytes for people, and what they are of.
#ifndef TESSERA_PASSES_SCHEDULE_SIZES_H
#define TESSERA_PASSES_SCHEDULE_SIZES_H

#include "passes/Memory/Storage.h"
#include <string>

namespace tessera {

/// `1.5 MiB (1572864 bytes)`.
std::string sizeText(int64_t bytes);
/// What a program takes of a tier that values leave, and what it would take if nothing did: `1.5 MiB (1572864
/// bytes) of the device instead of 2.0 MiB (2097152 bytes)`.
std::string takenText(Tier tier, int64_t taken, int64_t whole);
/// What a peak is made of, from figures as `Offsets` gives them: `optimizer 1.5 MiB (1572864 bytes), ...`.
std::string categoriesText(mlir::DictionaryAttr figures);
/// The three largest values that an operator reads, makes or works in, ` (NAME SIZE, ...)`; empty where it
/// has none.
std::string largestText(mlir::Operation *op, mlir::func::FuncOp func, const Storage &storage);

} // namespace tessera
#endif
