// Operators of the forward that run again for the backward: what passes/Recompute needs to know of a
// scheduled program, and what it chose written into it.
#ifndef TESSERA_PASSES_SCHEDULE_REPEAT_H
#define TESSERA_PASSES_SCHEDULE_REPEAT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Recompute/Cuts.h"
#include "llvm/ADT/DenseSet.h"
#include <functional>

namespace tessera {

/// The forward of a step in one block, or one forward step of a pipeline's stage.
struct Forward {
  llvm::SmallVector<mlir::Operation *> ops;
  std::vector<recompute::Operator> trace; // of ops
  recompute::Cuts cuts;
};

/// All forwards of a function, the bodies of its loops included. None of a function that has no backward, and
/// of one in which operators run again already. Times are of `threads` threads a rank.
std::vector<Forward> findForwards(mlir::func::FuncOp func, int64_t threads);

/// The operators of all forwards of a function that may run again. None where some do already.
llvm::DenseSet<mlir::Operation *> findRepeatable(mlir::func::FuncOp func);

/// What running operators again means for a step.
struct Repeats {
  int64_t operators = 0;            // that run again
  int64_t values = 0, bytes = 0;    // made again
  double flops = 0, flopsOfAll = 0; // of what runs again, and of all else
  /// Of what the operators make that run again, those that only moved among them, the names in the function
  /// as it was before (`ValueName::own`).
  std::vector<std::string> names;
  void operator+=(const Repeats &other);
};

/// Which operators run again: those up to a price, in the first quarter of each forward, whose values wait
/// longest, or in more of it.
struct Repetition {
  double price = 0;
  int64_t quarters = 4;
};

/// What is tried after a repetition.
enum class TryNext { MoreQuarters, NextPrice, Nothing };

/// Calls fn(which operators, what that means) with the function changed so, for repetitions from cheap to
/// dear, of each price in as many quarters as each of `quarters` says, ascending; the function is as it was
/// afterwards.
void forEachRepetition(mlir::func::FuncOp func, int64_t threads,
                       llvm::function_ref<TryNext(const Repetition &, const Repeats &)> fn,
                       llvm::ArrayRef<int64_t> quarters = {1, 2, 3, 4});

/// Changes the function so.
Repeats repeatOperators(mlir::func::FuncOp func, int64_t threads, const Repetition &repetition);

/// Such as "1.5 MiB (1572864 bytes) of activations (7 values) are made again, +9.6 % operations".
std::string describe(const Repeats &repeats);

/// Runs the chosen operators again just before the backward first reads what they make, with all that these
/// runs need of other chosen ones, and gives the backward what they make. Those stay alone that would read a
/// variable which has been written by then. Operators that only the backward reads move instead.
Repeats repeatOperators(mlir::func::FuncOp func, llvm::DenseSet<mlir::Operation *> chosen);

/// A copy of a function's body, and what brings it back.
std::function<void()> undoOf(mlir::func::FuncOp func);

} // namespace tessera
#endif
