// Where a pipeline is cut, by the compiler's own judgement.
#ifndef TESSERA_LIB_DRIVER_CUTS_H
#define TESSERA_LIB_DRIVER_CUTS_H

#include "lib/Driver/Compile.h"

namespace tessera {

/// Before Assign. What is known there of time and memory is estimated of operators one by one, so the cuts
/// that come into question (`kCutRules`) are compiled and simulated. Of those that need neither more time nor
/// more of the device's memory than the cut by the last rule, the one whose seconds times bytes are least is
/// left in `options.assign.cut`. The first where there is no such choice, or where so many steps would take
/// long to compile; what is chosen already stays: all sizes of an executable have the same cut.
void chooseCut(Compilation &compilation);

} // namespace tessera
#endif
