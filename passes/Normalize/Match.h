// What the patterns share: looking through constants, scalars and commutative operators, and short builders.
#ifndef TESSERA_PASSES_NORMALIZE_MATCH_H
#define TESSERA_PASSES_NORMALIZE_MATCH_H

#include "dialects/nn/NN.h"
#include "mlir/IR/PatternMatch.h"

namespace tessera::normalize {

using Shape = llvm::SmallVector<int64_t, 6>;

inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}
inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) { return typeOf(value).getShape(); }
inline int64_t rankOf(mlir::Value value) { return typeOf(value).getRank(); }
inline mlir::Type elementOf(mlir::Value value) { return typeOf(value).getElementType(); }
int64_t product(llvm::ArrayRef<int64_t> shape);

/// The value of all elements of `value`, when that is known: a splat constant, maybe reshaped or broadcast.
std::optional<double> splatValue(mlir::Value value);
inline bool isSplat(mlir::Value value, double expected) { return splatValue(value) == expected; }
bool isClose(double x, double y); ///< within the precision of f32

/// `value` = OpTy(x, y), or OpTy(y, x) with `swapped`; the commutative matchers below try both.
template <typename OpTy>
bool matchEither(mlir::Value value, llvm::function_ref<bool(mlir::Value, mlir::Value)> match) {
  auto op = value.getDefiningOp<OpTy>();
  return op && (match(op.getLhs(), op.getRhs()) || match(op.getRhs(), op.getLhs()));
}
/// `value` = x + c.
bool matchPlusScalar(mlir::Value value, mlir::Value &x, double &c);
/// `value` = x * c, as a product or quotient.
bool matchTimesScalar(mlir::Value value, mlir::Value &x, double &c);
/// `value` = x * x, or x to the power 2.
bool matchSquare(mlir::Value value, mlir::Value &x);
/// `value` = the mean of x over its last dimension, which is kept with size 1 or gone.
bool matchLastMean(mlir::Value value, mlir::Value &x);
/// Looks through reshapes that only add or remove dimensions of size 1.
mlir::Value skipUnitReshapes(mlir::Value value);
/// Whether `op` belongs to the elementwise family of numpy-broadcasting operators with one result.
bool isElementwise(mlir::Operation *op);
/// Has `attention` drop weights as `like` does, whose weights have the same row-major order.
void takeDropout(nn::AttentionOp attention, nn::AttentionOp like);

/// For a reshape whose result dimensions are products of consecutive operand dimensions: those of each result
/// dimension. Dimensions of size 1 join the group to their left, or the first. None for others.
std::optional<llvm::SmallVector<llvm::SmallVector<int64_t>>> collapseGroups(llvm::ArrayRef<int64_t> from,
                                                                            llvm::ArrayRef<int64_t> to);

/// A reshape; `value` itself when it has that shape.
mlir::Value reshape(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value, llvm::ArrayRef<int64_t> shape);
mlir::Value transpose(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value,
                      llvm::ArrayRef<int64_t> perm);
mlir::Value splat(mlir::OpBuilder &b, mlir::Location loc, mlir::Type element, llvm::ArrayRef<int64_t> shape,
                  double value);
/// `op` again, with other operands and result type.
mlir::Value cloneWith(mlir::OpBuilder &b, mlir::Operation *op, mlir::ValueRange operands,
                      llvm::ArrayRef<int64_t> shape);

} // namespace tessera::normalize
#endif
