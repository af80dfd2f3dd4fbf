// What is minimised: the loss as the user names it, and as operators of the training program.
#ifndef TESSERA_PASSES_DIFFERENTIATE_LOSS_H
#define TESSERA_PASSES_DIFFERENTIATE_LOSS_H

#include "dialects/nn/Attributes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera {

/// `kind` of result `output` of the inference function.
struct LossChoice {
  enum Kind { CrossEntropy, MeanSquares, Scalar } kind;
  unsigned output;
};

/// Reads `text` (`cross_entropy:OUTPUT`, `mse:OUTPUT`, `OUTPUT`, or empty for the default) against the
/// results of `infer`. Reports what does not fit.
llvm::FailureOr<LossChoice> chooseLoss(mlir::func::FuncOp infer, llvm::StringRef text);

/// The text that `choice` stands for.
std::string lossText(mlir::func::FuncOp infer, LossChoice choice);

/// The loss in the training program. `root` is the value to differentiate and `seed` its cotangent: one over
/// the number of counted labels (or elements), the program's only divisor.
struct LossValues {
  mlir::Value loss, root, seed;
};

/// The type of the argument that the loss compares `output` with, or null when it needs none.
mlir::RankedTensorType lossArgumentType(LossChoice choice, mlir::RankedTensorType output);
/// Its kind, which is its name too; none when it needs none.
std::optional<nn::InputKind> lossArgumentKind(LossChoice choice);

/// Emits the loss of `output`, compared with `argument` (null for a scalar output).
LossValues emitLoss(mlir::OpBuilder &builder, LossChoice choice, mlir::Value output, mlir::Value argument);

} // namespace tessera
#endif
