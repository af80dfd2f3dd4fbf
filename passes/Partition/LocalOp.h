// One operator's view of its operands' and results' layouts while its per-rank form is built.
#ifndef TESSERA_PASSES_PARTITION_LOCALOP_H
#define TESSERA_PASSES_PARTITION_LOCALOP_H

#include "dialects/dist/Dist.h"
#include "dialects/dist/Reshard.h"
#include "dialects/nn/NN.h"

namespace tessera {

class LocalOp : public nn::LocalBuilder {
public:
  /// Emits at `builder`'s insertion point. `op` has layouts in its types.
  LocalOp(mlir::OpBuilder &builder, nn::FactorOpInterface op);

  mlir::Location loc() const override { return op->getLoc(); }
  mlir::RankedTensorType resultType(unsigned result) const override;
  bool isSplit(int factor) const override;
  mlir::Value blockStart(int factor) override;
  mlir::Value allReduce(mlir::Value value, int factor, llvm::StringRef kind) override;
  mlir::Value allGather(mlir::Value value, int factor) override;
  llvm::SmallVector<int64_t> blockSizes(int factor) const override;
  mlir::Value ownElement(mlir::Value list, int factor) override;
  mlir::Value validity(int factor, mlir::Type element) override;
  mlir::Value logicalIndex(unsigned result, unsigned dim) override;
  bool isWhole(unsigned result, unsigned dim) const override;
  llvm::SmallVector<int64_t> heldOrder(unsigned result, unsigned dim) override;

  /// The operand with its padding made neutral where the operator would mix it in. Counts masks emitted.
  mlir::Value masked(unsigned operand, mlir::Value local, int64_t &numMasks);
  /// The operand with the padding of dimensions that the operator needs whole at their ends, where operators
  /// look for it; in a layout it is inside where the padded atom is not the major one. And the opposite for a
  /// result.
  mlir::Value paddedAtEnds(unsigned operand, mlir::Value local);
  mlir::Value paddedInside(unsigned result, mlir::Value local);
  /// Whether the operator needs the elements along a factor in order, padding last.
  bool countsThrough(int factor);
  mlir::LogicalResult status() const { return ok; }

private:
  dist::AxisList axesOf(int factor) const;
  mlir::Value maskEnd(unsigned operand, mlir::Value local, const dist::Layout &layout, int64_t &numMasks);

  nn::FactorOpInterface op;
  nn::FactorRule rule;
  llvm::SmallVector<llvm::SmallVector<dist::Atom, 1>> atoms; // per factor
  mlir::LogicalResult ok = mlir::success();
};

/// Emits the plan that takes `local`, a value laid out `from`, to layout `to`.
mlir::FailureOr<mlir::Value> emitReshard(mlir::OpBuilder &builder, mlir::Location loc,
                                         dist::ReshardPlanner &planner, mlir::Value local,
                                         const dist::Layout &from, const dist::Layout &to,
                                         int64_t &numCollectives);

} // namespace tessera
#endif
