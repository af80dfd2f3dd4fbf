// The builders that operators' interface methods emit through: GradBuilder for gradients, LocalBuilder for
// per-rank programs; and the plain data they answer with.
#ifndef TESSERA_DIALECTS_NN_BUILDERS_H
#define TESSERA_DIALECTS_NN_BUILDERS_H

#include "dialects/nn/FactorRule.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/DenseMap.h"

namespace tessera::nn {

/// How an operator may share a generated kernel. Elementwise: any iteration shape, broadcasts allowed. Row:
/// everything along the last dimension, independent along the others (softmax, layer norm). Alone: a kernel
/// of its own.
enum class FusionKind { Elementwise, Row, Alone };

/// A call of the runtime's library: `"op": "call"` of docs/program-format.md. The workspace is the last
/// buffer when `workspace` > 0.
struct LibraryCall {
  /// A number that the function has by value: `times` the number of operand `operand`, which is an i64 or an
  /// input of kind `scalar`; 0 where there is no operand.
  struct Scalar {
    int operand = -1;
    int64_t times = 1;
  };

  std::string function;
  mlir::DictionaryAttr attrs;
  int64_t workspace = 0; // bytes, which the library says
  /// The buffers in the function's order: operand i is i, result r is (number of operands) + r. Results that
  /// are not named are written into the operand's buffer that `inPlace` gives.
  llvm::SmallVector<int> buffers;
  /// Result r may take over the buffer of operand `inPlace[r]` when that operand dies here (and must, when
  /// `buffers` does not name it); -1, or left off: never.
  llvm::SmallVector<int> inPlace;
  /// In the function's order. None: the i64 operands, as they are.
  llvm::SmallVector<Scalar> scalars;
};

/// Emits gradient operators of one forward operator and derives, for each, its factor map: every value's
/// dimensions are known as factors of the forward operator (operands, results and cotangents from its rule,
/// others from the rules of what was emitted).
class GradBuilder : public mlir::OpBuilder, public mlir::OpBuilder::Listener {
public:
  /// Emits at the end of `block`. `wanted[i]`: operand i needs a cotangent.
  GradBuilder(mlir::Operation *forward, llvm::ArrayRef<bool> wanted, mlir::ValueRange cotangents);
  mlir::Operation *forward() const { return op; }
  mlir::Location loc() const { return op->getLoc(); }
  bool wants(unsigned operand) const { return wanted[operand]; }
  /// Hands over the cotangent of operand `operand`: same shape and element type as the operand.
  void add(unsigned operand, mlir::Value cotangent);
  /// Attaches `nn.grad_of` to everything emitted. Call once, after buildVjp.
  void finish();
  llvm::ArrayRef<mlir::Value> results() const { return grads; }

private:
  void notifyOperationInserted(mlir::Operation *inserted, mlir::OpBuilder::InsertPoint previous) override;
  void learn(mlir::Value value, llvm::ArrayRef<int> dims);

  mlir::Operation *op;
  llvm::SmallVector<bool> wanted;
  llvm::SmallVector<mlir::Value> grads;
  llvm::SmallVector<mlir::Operation *> emitted;
  llvm::DenseMap<mlir::Value, DimFactors> known; // dimension -> forward factor
};

/// What an operator may ask while its per-rank form is built. Implemented by the partition pass.
class LocalBuilder : public mlir::OpBuilder {
public:
  using OpBuilder::OpBuilder;
  virtual ~LocalBuilder() = default;
  virtual mlir::Location loc() const = 0;
  /// The local type of result `result` (no encoding).
  virtual mlir::RankedTensorType resultType(unsigned result) const = 0;
  /// Whether any axis splits `factor`.
  virtual bool isSplit(int factor) const = 0;
  /// First logical position of this rank's block of `factor`: an i64.
  virtual mlir::Value blockStart(int factor) = 0;
  /// All-reduce over the axes that split `factor`; kind is "sum" or "max". The value itself when nothing
  /// splits it.
  virtual mlir::Value allReduce(mlir::Value value, int factor, llvm::StringRef kind) = 0;
  /// The logical position along dimension `dim` of result `result` of each local position: tensor<n x i64>.
  virtual mlir::Value logicalIndex(unsigned result, unsigned dim) = 0;
  /// Whether the rank holds all positions along dimension `dim` of result `result`, in their logical order
  /// and padding at the end alone.
  virtual bool isWhole(unsigned result, unsigned dim) const { return false; }
  /// Where all positions along dimension `dim` of result `result` are held in another than their logical
  /// order: the logical position of each held one. Else empty.
  virtual llvm::SmallVector<int64_t> heldOrder(unsigned result, unsigned dim) { return {}; }
  /// `value` of every rank that splits `factor`, in their order, along a new first dimension.
  virtual mlir::Value allGather(mlir::Value value, int factor) = 0;
  /// How many positions along `factor` that are no padding each of these ranks has, in that order; one number
  /// where nothing splits it.
  virtual llvm::SmallVector<int64_t> blockSizes(int factor) const = 0;
  /// This rank's element of `list`, which has one for each of these ranks: tensor<1 x element>.
  virtual mlir::Value ownElement(mlir::Value list, int factor) = 0;
  /// 1 at each local position along `factor` that is no padding, 0 elsewhere: tensor<n x element>. Null where
  /// there is no padding.
  virtual mlir::Value validity(int factor, mlir::Type element) = 0;
};

/// The default of `expandLocal`: the same operator on local operands, with the local result types.
llvm::LogicalResult cloneLocal(mlir::Operation *op, LocalBuilder &builder, mlir::ValueRange operands,
                               llvm::SmallVectorImpl<mlir::Value> &results);

/// The default of `isDiscontinuous`: integers and truth values step, and so does what has a gradient of zero.
bool isStepwise(mlir::Operation *op);

} // namespace tessera::nn
#endif
