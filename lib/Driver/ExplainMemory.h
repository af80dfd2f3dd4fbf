// What `explain` says of memory below a cap.
#ifndef TESSERA_LIB_DRIVER_EXPLAINMEMORY_H
#define TESSERA_LIB_DRIVER_EXPLAINMEMORY_H

#include "passes/Schedule/Placed.h"
#include "llvm/Support/raw_ostream.h"

namespace tessera {

/// For each value that may leave the device, of those with a name that `glob` matches unless it is empty:
/// where it is in each gap between two uses, why, what its transfers take, and what the other choice would
/// cost.
void printPlaced(const PlacedProgram &program, llvm::StringRef glob, llvm::raw_ostream &os);

} // namespace tessera
#endif
