// A kernel as loop statements over buffers: the form in which its schedule is chosen and from which loops are
// emitted.

#ifndef TESSERA_LIB_TARGET_COMMON_LOOPS_H
#define TESSERA_LIB_TARGET_COMMON_LOOPS_H

#include "lib/Target/Common/Kernels.h"
#include "mlir/IR/AffineExpr.h"

namespace tessera::target {

/// A place where a tensor value lives.
struct Slot {
  enum Kind { Argument, Result, Temporary, Constant } kind = Temporary;
  mlir::Type element;
  llvm::SmallVector<int64_t> shape;
  unsigned argument = 0;       ///< Argument: number of the function's argument
  unsigned result = 0;         ///< Result: number of the function's result
  int inPlaceOf = -1;          ///< Result: slot of the argument whose buffer it shares
  mlir::ElementsAttr constant; ///< Constant
  unsigned writers = 0;        ///< statements that write it
  bool stored = false;         ///< Temporary: read from memory, so it needs some
  int64_t elements() const;
};

/// A read of a tensor at a function of the loop variables: a scalar (every position holds the same), nothing
/// (the contents are undefined), or a position in a slot.
struct Access {
  int slot = -1;
  mlir::Type element;       ///< of the value read: f32 where a slot of bf16 or f16 is read widened
  mlir::Value scalar;       ///< slot < 0: a value of the function's top level
  mlir::TypedAttr constant; ///< slot < 0: a constant
  llvm::SmallVector<mlir::AffineExpr> index; ///< position by dimension of the slot
  mlir::AffineExpr linear;                   ///< row-major position
  bool isUndefined() const { return slot < 0 && !scalar && !constant; }
};

struct Write {
  Access to;
  Access init; ///< what the body's output argument holds first
};

/// One perfect loop nest: `body` (of a linalg operation) once per point; without a body it copies its only
/// read.
struct Statement {
  mlir::Operation *op = nullptr;
  mlir::Block *body = nullptr;
  llvm::SmallVector<int64_t> extents;
  llvm::SmallVector<bool> reduction;
  llvm::SmallVector<Access> reads; ///< one per input argument of the body
  llvm::SmallVector<Write> writes; ///< one per yielded value
  llvm::SmallVector<int> captured; ///< slots that the body reads at computed positions
  bool usesIndex = false;
  llvm::SmallVector<int> loopOfDim; ///< the loop of each dimension of the operation
  // Chosen by the scheduler.
  bool invariant = false;        ///< has none of the range loops: runs once per call
  llvm::SmallVector<int> ranges; ///< position of each range dimension among its loops
  llvm::SmallVector<int> loops;  ///< position of each loop of the segment among its loops
  /// Whether a write sums over a loop. A statement may do that in one write and set every point in another,
  /// as a softmax does that sums its exponentials.
  bool accumulates(const Write &write) const;
  /// Whether a reduction loop has a parallel one inside, so that sums are kept in memory, not in registers.
  bool accumulatesInMemory() const;
};

/// Statements that share one loop nest; values pass from one to the next in registers.
struct Segment {
  llvm::SmallVector<unsigned> statements;
  llvm::SmallVector<int64_t>
      extents;        ///< of the loops inside a range unit, outermost first, without those of extent 1
  int rangeLoop = -1; ///< Flat, Columns: the loop over the range's units
  bool invariant = false;
};

/// A kernel, read and scheduled.
struct Kernel {
  mlir::func::FuncOp func;
  std::vector<Slot> slots;
  std::vector<Statement> statements;
  llvm::DenseMap<mlir::Value, int> slotOf;
  llvm::SmallVector<mlir::Value> symbols; ///< top-level scalars that occur in accesses, as affine symbols

  KernelInfo info;
  llvm::SmallVector<int64_t> rangeExtents;
  int64_t block = 1; ///< Flat, Columns: units per step of the range loop; temporaries hold that many
  /// On a GPU: warps of a thread block that each work on a unit of their own, the lanes of a warp sharing the
  /// innermost loops. 0: a unit is worked on by one thread, as on a CPU.
  int64_t warps = 0;
  /// On a GPU: neighbouring units that a thread block works on, each by as many threads as the block has for
  /// it; the threads of a unit share the innermost loops. 0: see `warps`.
  int64_t columns = 0, sharers = 0;
  std::vector<Segment> segments;

  /// The access to `value` at `index` (in its own dimensions), seen through casts, slices and reshapes.
  mlir::FailureOr<Access> resolve(mlir::Value value, llvm::SmallVector<mlir::AffineExpr> index);
  /// An affine expression for a static or dynamic (top-level index value) offset.
  mlir::AffineExpr offsetExpr(mlir::OpFoldResult offset);
  /// The slot's shape as a temporary: range dimensions hold one unit, or one block.
  llvm::SmallVector<int64_t> storageShape(int slot) const;
  /// Bytes that the stored temporaries of a unit (or of a block of units) take.
  int64_t temporaryBytes() const;
  /// The classes of range dimensions of a slot: for each of its dimensions the range dimension it is, or -1.
  std::vector<llvm::SmallVector<int>> slotRanges;
};

/// Row-major position of `index` in `shape`.
mlir::AffineExpr linearise(llvm::ArrayRef<mlir::AffineExpr> index, llvm::ArrayRef<int64_t> shape,
                           mlir::MLIRContext *context);

/// Lets sums and products over a loop be taken in any order, maxima and minima disregard the sign of a zero.
/// All other arithmetic stays IEEE's. f64 is left as it is.
void relaxReductions(mlir::func::FuncOp func);

/// Reads the body of `func` into statements.
mlir::FailureOr<Kernel> readKernel(mlir::func::FuncOp func);

/// Chooses ranges, segments and storage; fails only where an in-place result cannot be.
mlir::LogicalResult schedule(Kernel &kernel);

/// Schedules a kernel again that was cut by columns: a unit has its loops for itself, as a row has. Fails
/// where an in-place result cannot be.
mlir::LogicalResult scheduleColumnsApart(Kernel &kernel);

/// Emits the scheduled kernel before `kernel.func` as a function on flat memrefs, scalars and the range (two
/// index arguments), with scf loops. The buffer arguments come first, in the order of the binary interface.
mlir::FailureOr<mlir::func::FuncOp> emitLoops(Kernel &kernel, llvm::StringRef name);

/// Whether `op` widens or rounds the elements of a tensor, which loads and stores do as they go.
bool isConversion(mlir::Operation *op);

/// True if the kernel has what loop statements cannot express: operations with regions or results on tensors
/// other than those of linalg and the reshapes, slices, insertions, concatenations and paddings of tensor.
bool needsBufferization(mlir::func::FuncOp func);

/// Turns such a kernel, alone in its module, into a function on buffers named `name` with the signature of
/// emitLoops, and sets `info`.
mlir::FailureOr<mlir::func::FuncOp> bufferizeKernel(mlir::func::FuncOp func, llvm::StringRef name,
                                                    KernelInfo &info);

} // namespace tessera::target

#endif // TESSERA_LIB_TARGET_COMMON_LOOPS_H
