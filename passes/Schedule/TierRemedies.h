// What is said of a program that cannot be kept below the caps of its tiers.
#ifndef TESSERA_PASSES_SCHEDULE_TIERREMEDIES_H
#define TESSERA_PASSES_SCHEDULE_TIERREMEDIES_H

#include "passes/Schedule/Passes.h"
#include "passes/Schedule/TierSearch.h"

namespace tessera {

/// Reports that `func` does not fit: what it needs, what was given, the least possible and what sets it, of
/// all programs that are `pending` (this one among them); what its peak is made of; and what would help, each
/// remedy tried. `needed` are its peaks when nothing leaves. `told` hears of the least, if set.
void refuse(TierSearch &search, mlir::func::FuncOp func, const tiers::Limits &needed,
            llvm::ArrayRef<mlir::func::FuncOp> pending, const LeastObserver &told);

/// Whether a placement may keep the program below the device's cap: not where even with anything moved or
/// made again it needs more.
bool mayFit(TierSearch &search, mlir::func::FuncOp func);

/// The least bytes of the device that these programs need, with anything moved or made again.
int64_t leastDeviceBytes(TierSearch &search, llvm::ArrayRef<mlir::func::FuncOp> programs);

} // namespace tessera
#endif
