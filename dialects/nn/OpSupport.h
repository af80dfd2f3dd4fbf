// What the operators' sources share: types, diagnostics, letters of factor rules, small constants. Not for
// other folders.
#ifndef TESSERA_DIALECTS_NN_OPSUPPORT_H
#define TESSERA_DIALECTS_NN_OPSUPPORT_H

#include "dialects/nn/NN.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

namespace tessera::nn {

/// The type without its encoding (layout).
mlir::RankedTensorType plainType(mlir::Type type);
inline mlir::RankedTensorType plainType(mlir::Value value) { return plainType(value.getType()); }
/// The element type of a tensor value, the shape of one, and whether it is floating.
mlir::Type elementOf(mlir::Value value);
llvm::ArrayRef<int64_t> shapeOf(mlir::Value value);
inline bool isFloat(mlir::Value value) { return llvm::isa<mlir::FloatType>(elementOf(value)); }
inline mlir::Type i1Of(mlir::MLIRContext *context) { return mlir::IntegerType::get(context, 1); }
/// "[2, 3]", for messages.
std::string shapeText(llvm::ArrayRef<int64_t> shape);

/// Reports `message` at `location` (when there is one) and fails.
llvm::LogicalResult inferError(std::optional<mlir::Location> location, const llvm::Twine &message);
/// Whether types agree in shape and element type; encodings are not compared.
bool sameShapesAndElements(mlir::TypeRange a, mlir::TypeRange b);

/// The same, or `actual` has f32 where `inferred` has bf16 or f16.
bool sameOrWider(mlir::TypeRange inferred, mlir::TypeRange actual);
/// Whether the type is bf16 or f16; and what is f32 for these: statistics of rows, sums over everything.
inline bool isHalf(mlir::Type element) { return element.isBF16() || element.isF16(); }
mlir::Type wideOf(mlir::Type element);
/// `value` with another element type, itself where it has it already.
mlir::Value castTo(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value, mlir::Type element);

/// `count` distinct letters (a, b, ...), none of `avoid`.
std::string freshLetters(size_t count, llvm::StringRef avoid = "");
/// fromLetters with the operator's own types.
FactorRule lettersRule(mlir::Operation *op, llvm::ArrayRef<std::string> operands,
                       llvm::ArrayRef<std::string> results, llvm::StringRef cooperative = "",
                       llvm::StringRef unsplit = "", std::optional<llvm::StringRef> ordered = {});

/// A scalar (rank 0) constant; integers are rounded.
mlir::Value scalarConstant(mlir::OpBuilder &builder, mlir::Location loc, mlir::Type element, double value);
/// A splat constant of `type`.
mlir::Value splatConstant(mlir::OpBuilder &builder, mlir::Location loc, mlir::RankedTensorType type,
                          double value);
/// value * factor, by a scalar constant.
mlir::Value scaled(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value, double factor);
/// The sum over `dims` (which disappear), or with `keep` (which get size 1).
mlir::Value sumOver(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                    llvm::ArrayRef<int64_t> dims, bool keep = false);
/// Sums `value` over the dimensions that broadcasting stretched to get it from `type`, and gives it that
/// shape.
mlir::Value sumToShape(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                       mlir::RankedTensorType type);
/// Appends a dimension of size 1.
mlir::Value withTrailingOne(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value);
/// All-reduces (sum) values of one type over what splits `factor`, by one collective.
llvm::SmallVector<mlir::Value> allReduceTogether(LocalBuilder &builder, llvm::ArrayRef<mlir::Value> values,
                                                 int factor);
/// The per-rank form of an operator that would see padding at the end of its unsplit dimensions: operands are
/// cut to their logical sizes along them and results padded again. `adjust`, if given, corrects the
/// attributes of the local operator.
llvm::LogicalResult expandTrimmed(
    FactorOpInterface op, LocalBuilder &builder, mlir::ValueRange operands,
    llvm::SmallVectorImpl<mlir::Value> &results,
    llvm::function_ref<void(mlir::ValueRange trimmed, mlir::NamedAttrList &attrs)> adjust = nullptr);
/// `value` cut to, or padded with zeros up to, the sizes of `shape`.
mlir::Value trimmedTo(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                      llvm::ArrayRef<int64_t> shape);
mlir::Value paddedTo(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                     llvm::ArrayRef<int64_t> shape);
/// What padding must hold to lose against everything in a maximum of elements of `type`.
double lowest(mlir::Type type);

/// The shared implementation of the elementwise family: shapes broadcast as in numpy.
llvm::LogicalResult inferElementwise(std::optional<mlir::Location> location, mlir::ValueRange operands,
                                     mlir::Type element, llvm::SmallVectorImpl<mlir::Type> &types);
FactorRule elementwiseRule(mlir::Operation *op);
llvm::FailureOr<llvm::SmallVector<mlir::Value>>
lowerElementwise(mlir::Operation *op, mlir::OpBuilder &builder, mlir::ValueRange operands);

} // namespace tessera::nn

/// Opens the definition of `Op::inferReturnTypes`; `adaptor`, `location` and `types` are what its body uses.
#define TESSERA_INFER(Op)                                                                                    \
  static llvm::LogicalResult inferTypesOf(Op::Adaptor adaptor, mlir::MLIRContext *context,                   \
                                          std::optional<mlir::Location> location, mlir::ValueRange operands, \
                                          llvm::SmallVectorImpl<mlir::Type> &types);                         \
  llvm::LogicalResult Op::inferReturnTypes(                                                                  \
      mlir::MLIRContext *context, std::optional<mlir::Location> location, mlir::ValueRange operands,         \
      mlir::DictionaryAttr attributes, mlir::OpaqueProperties properties, mlir::RegionRange regions,         \
      llvm::SmallVectorImpl<mlir::Type> &types) {                                                            \
    return inferTypesOf(Adaptor(operands, attributes, properties, regions), context, location, operands,     \
                        types);                                                                              \
  }                                                                                                          \
  static llvm::LogicalResult inferTypesOf(Op::Adaptor adaptor, mlir::MLIRContext *context,                   \
                                          std::optional<mlir::Location> location, mlir::ValueRange operands, \
                                          llvm::SmallVectorImpl<mlir::Type> &types)

#endif
