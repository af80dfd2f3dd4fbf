// Emits linalg from letters: one letter a dimension, as in factor rules. Not for other folders.
#ifndef TESSERA_DIALECTS_NN_LOWERING_H
#define TESSERA_DIALECTS_NN_LOWERING_H

#include "dialects/nn/OpSupport.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace tessera::nn {

using Lowered = llvm::FailureOr<llvm::SmallVector<mlir::Value>>;

/// What lowered code has for an element type: integers without signs. Whether an operator reads them as
/// unsigned, its own types tell.
mlir::Type loweredType(mlir::Type element);
/// The tensor type of the lowered value: without encoding, of the lowered element type.
mlir::RankedTensorType loweredTensor(mlir::Value value);

/// A tensor and a letter for each of its dimensions; '1' is a dimension of which only position 0 is read.
struct Lettered {
  mlir::Value value;
  std::string letters;
};

/// Emits the plain lowering of one operator.
class LinalgEmitter {
public:
  /// Computes the scalars to yield from those of the inputs, then of the inits.
  using Body = llvm::function_ref<llvm::SmallVector<mlir::Value>(llvm::ArrayRef<mlir::Value>)>;

  LinalgEmitter(mlir::OpBuilder &builder, mlir::Location loc) : b(builder), loc(loc) {}

  mlir::Value empty(llvm::ArrayRef<int64_t> shape, mlir::Type element);
  /// A tensor filled with `value`; a result's starting value.
  mlir::Value filled(llvm::ArrayRef<int64_t> shape, mlir::Type element, double value);
  /// One generic. Letters that some init lacks are reductions. Loops run in the order of letters in inits,
  /// then inputs.
  llvm::SmallVector<mlir::Value> generic(llvm::ArrayRef<Lettered> inputs, llvm::ArrayRef<Lettered> inits,
                                         Body body);
  /// One elementwise generic with a result of `shape` and `element`.
  mlir::Value map(llvm::ArrayRef<Lettered> inputs, llvm::StringRef out, llvm::ArrayRef<int64_t> shape,
                  mlir::Type element, llvm::function_ref<mlir::Value(llvm::ArrayRef<mlir::Value>)> body);
  /// The sum (or maximum) of body(inputs) over the letters that `out` lacks.
  mlir::Value sum(llvm::ArrayRef<Lettered> inputs, llvm::StringRef out, llvm::ArrayRef<int64_t> shape,
                  mlir::Type element, llvm::function_ref<mlir::Value(llvm::ArrayRef<mlir::Value>)> body);
  mlir::Value max(Lettered input, llvm::StringRef out, llvm::ArrayRef<int64_t> shape);
  /// Inside a body: the position of the loop that runs along `letter`, as index.
  mlir::Value position(char letter);

  // Scalars inside a body.
  mlir::Value constant(mlir::Type type, double value);
  mlir::Value index(int64_t value);
  mlir::Value add(mlir::Value x, mlir::Value y);
  mlir::Value sub(mlir::Value x, mlir::Value y);
  mlir::Value mul(mlir::Value x, mlir::Value y);
  mlir::Value div(mlir::Value x, mlir::Value y);
  mlir::Value exp(mlir::Value x);

  mlir::OpBuilder &b;
  mlir::Location loc;

private:
  std::string loops; // of the generic being built
};

} // namespace tessera::nn
#endif
