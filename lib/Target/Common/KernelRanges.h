// The ways of cutting a kernel into ranges of independent units, of which scheduling takes the first that
// works.

#ifndef TESSERA_LIB_TARGET_COMMON_KERNELRANGES_H
#define TESSERA_LIB_TARGET_COMMON_KERNELRANGES_H

#include "lib/Target/Common/LoopDimensions.h"

namespace tessera::target {

/// A strategy, and the dimensions whose positions are the units of a range.
struct Cut {
  Strategy strategy;
  llvm::SmallVector<int> dimensions; ///< classes of LoopDimensions
};

/// Turns a kernel whose every access runs through memory in the order of its loops into one with one loop per
/// statement.
bool flattenLoops(Kernel &kernel);

/// The cuts that are worth trying on a kernel that is not flat, the best first. All may fail.
std::vector<Cut> possibleCuts(const Kernel &kernel, const LoopDimensions &dims);

/// Sets the range loops of each statement, or returns false if the cut does not fit the kernel.
bool applyCut(Kernel &kernel, const Cut &cut, const LoopDimensions &dims);

/// Sets how many units there are, and how few are worth a call.
void chooseGrain(Kernel &kernel);

} // namespace tessera::target

#endif // TESSERA_LIB_TARGET_COMMON_KERNELRANGES_H
