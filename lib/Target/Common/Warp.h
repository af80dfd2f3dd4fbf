// What loops need where threads of a GPU share a unit of a kernel, each taking every nth point of the
// innermost loop: the 32 lanes of a warp, which complete sums by shuffles, or threads of a block that stand
// apart, with those of neighbouring units between them, which do so in shared memory.

#ifndef TESSERA_LIB_TARGET_COMMON_WARP_H
#define TESSERA_LIB_TARGET_COMMON_WARP_H

#include "lib/Target/Common/Loops.h"
#include "mlir/IR/Builders.h"

namespace tessera::target {

inline constexpr int64_t warpLanes = 32;

/// The operation that a statement combines the values of `write` with, if that has a neutral element; else
/// null.
mlir::Operation *combinerOf(const Statement &statement, unsigned write);

/// Whether lanes can share the innermost loops of a scheduled kernel: every sum along one is by an operation
/// with a neutral element, and no loop inside of it is parallel.
bool canShareUnits(const Kernel &kernel);

/// Emits what a lane, one of the threads that share a unit, does. GPU intrinsics are calls of functions with
/// LLVM's names for them.
class WarpEmitter {
public:
  /// For lanes of a warp; or, with `columns`, for `sharers` threads to each of that many neighbouring units.
  WarpEmitter(mlir::OpBuilder &builder, mlir::Location loc, mlir::func::FuncOp target, int64_t columns,
              int64_t sharers);

  mlir::Value lane() const { return laneIndex; }
  int64_t lanes() const { return columns ? sharers : warpLanes; }
  /// This warp's part of a shared memory with `bytes` for each of `warps`; null where there are none.
  mlir::Value sharedMemory(int64_t bytes, int64_t warps);
  /// What the lanes have read and written before is done.
  void sync();
  /// Runs `emit` on one lane, after every lane has read what it may overwrite.
  void onFirstLane(llvm::function_ref<void()> emit);
  /// The value that `combiner` starts from.
  mlir::Value neutral(mlir::Operation *combiner);
  /// `initial` combined with the values of all lanes, the same on every one.
  mlir::Value reduce(mlir::Operation *combiner, mlir::Value initial, mlir::Value value);

private:
  mlir::Value call(llvm::StringRef name, mlir::Type result, mlir::ValueRange arguments);
  mlir::Value integer(int64_t value);
  mlir::Value shuffle(mlir::Value value, int64_t distance);
  mlir::Value combine(mlir::Operation *combiner, mlir::Value a, mlir::Value c);
  /// The values of all threads of a block, [sharer, column].
  mlir::Value exchange(mlir::Type type);
  mlir::Value reduceApart(mlir::Operation *combiner, mlir::Value value);

  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::func::FuncOp target;
  int64_t columns, sharers;
  mlir::Value thread, laneIndex;
};

} // namespace tessera::target

#endif // TESSERA_LIB_TARGET_COMMON_WARP_H
