// Emits a scheduled kernel as scf loops with loads and stores on flat memrefs: the function and its
// statements in EmitStatements.cpp, the loops around them in EmitLoops.cpp.
#ifndef TESSERA_LIB_TARGET_COMMON_LOOPEMITTER_H
#define TESSERA_LIB_TARGET_COMMON_LOOPEMITTER_H

#include "lib/Target/Common/LoopDimensions.h"
#include "lib/Target/Common/Warp.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

namespace tessera::target {

/// Accumulators of reductions that are under way: (statement, number of the write) -> value.
using Accumulators = llvm::MapVector<std::pair<unsigned, unsigned>, mlir::Value>;

/// The points of an innermost loop that a lane takes at a time: `groups` of `neighbours`, a group of every
/// lane beside each other.
struct LanePoints {
  int64_t neighbours = 1, groups = 1;
};

class LoopEmitter {
public:
  explicit LoopEmitter(Kernel &kernel) : k(kernel), b(kernel.func.getContext()), loc(kernel.func.getLoc()) {}
  mlir::FailureOr<mlir::func::FuncOp> emit(llvm::StringRef name);

private:
  /// bf16 lies in memory as integers: LLVM calls a library to build vectors of it.
  mlir::Type storageType(mlir::Type element) {
    return element.isInteger(1) ? mlir::Type(b.getIntegerType(8))
           : element.isBF16()   ? mlir::Type(b.getIntegerType(16))
                                : element;
  }
  mlir::Value constantIndex(int64_t value) { return mlir::arith::ConstantIndexOp::create(b, loc, value); }
  void createFunction(llvm::StringRef name);
  mlir::LogicalResult cloneScalars();
  mlir::Value topLevel(mlir::Value value) { return scalars.lookupOrDefault(value); }
  mlir::Value position(mlir::AffineExpr expr, llvm::ArrayRef<mlir::Value> variables);
  mlir::Value load(int slot, mlir::Value at);
  /// Rounds what the slot holds in bf16 or f16.
  void store(int slot, mlir::Value at, mlir::Value value);
  /// A value read as `element` says.
  mlir::Value widened(mlir::Value value, mlir::Type element);
  /// Position of `access` in the memory of its slot, at the current point of `statement`.
  mlir::Value address(const Access &access, unsigned statement);
  mlir::Value read(const Access &access, unsigned statement);
  void emitSegment(Segment &segment);
  void collapseLoops(Segment &segment);
  void initialiseMemory(Segment &segment);
  void emitLevel(Segment &segment, unsigned level, Accumulators &acc);
  bool canJamRows(const Segment &segment, unsigned level, const Accumulators &acc);
  void emitJammedRows(Segment &segment, unsigned level);
  mlir::scf::ForOp createLoop(const Segment &segment, unsigned level, mlir::ValueRange initial = {});
  void enterLoop(const Segment &segment, unsigned level, mlir::Value iv);
  /// Emits what is inside of a loop at `level`, for each of the points that are `offsets` behind its
  /// variable.
  void emitInside(mlir::scf::ForOp forOp, Segment &segment, unsigned level, llvm::ArrayRef<int64_t> offsets,
                  Accumulators &acc);
  /// The innermost loop, which the lanes of a warp share.
  void emitLanes(Segment &segment, Accumulators &acc);
  LanePoints lanePoints(const Segment &segment);
  void emitStatement(unsigned number, Segment &segment, Accumulators &acc);
  /// `onEveryLane`: outside of the loops that lanes share, so that all of them have the value.
  void finish(unsigned number, unsigned write, mlir::Value value, bool onEveryLane);
  void cloneOp(mlir::Operation &op, mlir::IRMapping &map, unsigned number);
  unsigned accumulateFrom(const Segment &segment, const Statement &s);

  Kernel &k;
  mlir::OpBuilder b;
  mlir::Location loc;
  mlir::func::FuncOp target;
  mlir::IRMapping scalars;         ///< top-level scalars of the kernel -> their values in the new function
  std::vector<mlir::Value> memory; ///< by slot
  std::vector<llvm::SmallVector<mlir::Value>>
      variables; ///< by statement: its loop variables at the current point
  std::vector<llvm::SmallVector<mlir::Value>> local; ///< the same as positions in temporaries
  llvm::DenseMap<int, mlir::Value> forwarded; ///< slot -> value at the current point of the current segment
  Accumulators *held =
      nullptr; ///< in jammed rows: the memory accumulators, kept in registers from row to row
  llvm::DenseMap<int, mlir::Value> unitScalars; ///< slot -> its only value in this range unit
  mlir::Value begin, end, base;
  mlir::Value zero;
  std::optional<WarpEmitter> warp; ///< where the lanes of a warp share a unit
};

} // namespace tessera::target
#endif
