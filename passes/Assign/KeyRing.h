// Attention while keys and values go round: what patterns that stream them share.
#ifndef TESSERA_PASSES_ASSIGN_KEYRING_H
#define TESSERA_PASSES_ASSIGN_KEYRING_H

#include "passes/Assign/Pattern.h"

namespace tessera {

/// The rank's block of keys, values and what belongs to them, and how it moves on: one place along the last
/// ring, and one along the first whenever the last is through. Blocks of queries stay.
class KeyRing {
public:
  /// `op`: an attention with layouts in its types, or the gradient of one; `operands`: its local ones.
  KeyRing(nn::LocalBuilder &builder, nn::AttentionOp op, llvm::ArrayRef<dist::AxisList> axes,
          mlir::ValueRange operands)
      : KeyRing(builder, op, axes, operands, /*isGradient=*/false, /*drops=*/!op.getRandom().empty()) {}
  KeyRing(nn::LocalBuilder &builder, nn::AttentionGradOp op, llvm::ArrayRef<dist::AxisList> axes,
          mlir::ValueRange operands)
      : KeyRing(builder, op, axes, operands, /*isGradient=*/true, /*drops=*/!op.getRandom().empty()) {}
  /// As many as there are blocks.
  int64_t steps() const { return dist::product(ring); }
  /// The block of the rank before, sent by it.
  mlir::Value move(mlir::Value value) { return hop(value, next(), -1); }
  /// After all values have moved.
  void advance();
  /// A value that belongs to the block that is here, sent to where the block belongs.
  mlir::Value home(mlir::Value value);

  /// Attention of the queries that are here to the keys that are: o and lse, the logarithm of a row's sum.
  /// `bias` is over all keys.
  std::pair<mlir::Value, mlir::Value> attend(nn::AttentionOp op, mlir::Value q, mlir::Value k, mlir::Value v,
                                             mlir::Value bias);
  struct Gradients {
    mlir::Value q, k, v;
  };
  /// What the keys that are here contribute to cotangents; `rest`: o, lse and the cotangent of o.
  Gradients differentiate(nn::AttentionGradOp op, mlir::Value q, mlir::Value k, mlir::Value v,
                          mlir::Value bias, mlir::ValueRange rest);

private:
  KeyRing(nn::LocalBuilder &builder, mlir::Operation *op, llvm::ArrayRef<dist::AxisList> axes,
          mlir::ValueRange operands, bool isGradient, bool drops);
  size_t next() const { return ring.size() == 2 && (moved + 1) % ring[1].size == 0 ? 0 : ring.size() - 1; }
  mlir::Value hop(mlir::Value value, size_t along, int64_t shift);
  mlir::DenseI64ArrayAttr shift() { return b.getDenseI64ArrayAttr(step); }
  mlir::Value blockStart(const dist::AxisList &axes, int64_t block, mlir::DenseI64ArrayAttr shift);
  mlir::Value number(int64_t value);
  llvm::SmallVector<mlir::Value> range();
  mlir::Value columns(mlir::Value bias);
  mlir::IntegerAttr order() { return b.getI64IntegerAttr(zigzag); }
  nn::LocalBuilder &b;
  mlir::Location loc;
  dist::AxisList ring, queryAxes;
  int64_t queryBlock = 0, keyBlock = 0, numKeys = 0, moved = 0;
  int64_t zigzag = 0; // blocks in zig-zag order, 0: in order
  bool isGradient;
  llvm::SmallVector<mlir::Value> random; // of a dropout
  llvm::SmallVector<int64_t> step;       // whose block is here: how many ranks further on along each ring
};

/// Forward: attention to each block in turn, merged by the logarithm of each row's sum, while the next one is
/// on its way.
void expandAttention(nn::LocalBuilder &builder, nn::AttentionOp op, llvm::ArrayRef<dist::AxisList> axes,
                     mlir::ValueRange operands, llvm::SmallVectorImpl<mlir::Value> &results);
/// Backward: blocks go round again, and the cotangents of each travel with it, once more than it.
void expandAttentionGrad(nn::LocalBuilder &builder, nn::AttentionGradOp op,
                         llvm::ArrayRef<dist::AxisList> axes, mlir::ValueRange operands,
                         llvm::SmallVectorImpl<mlir::Value> &results);
/// Why an attention cannot pass its keys round one ring an element of `axes`, for pattern `name`; empty if it
/// can.
Applies appliesToRing(nn::FactorOpInterface op, llvm::StringRef name, llvm::ArrayRef<dist::AxisList> axes);

} // namespace tessera
#endif
