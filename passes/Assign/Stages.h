// Cutting a program into pipeline stages.
#ifndef TESSERA_PASSES_ASSIGN_STAGES_H
#define TESSERA_PASSES_ASSIGN_STAGES_H

#include "dialects/dist/Axis.h"
#include "dialects/dist/Pipeline.h"
#include "dialects/nn/Attributes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Assign/Balance.h"
#include "passes/Assign/Plan.h"
#include "llvm/ADT/SetVector.h"

namespace tessera {

/// Gives the operators of every program their chunk, by the plan's globs or balanced by cost, and makes the
/// training program one of stages. Reports more stages than layers, globs that match nothing, values that
/// would flow back.
mlir::LogicalResult assignStages(mlir::ModuleOp module, const Plan &plan, const dist::Mesh &mesh,
                                 const CutRule &cut);

/// What the values of a program depend on. A forward operator that depends on an input and on a parameter has
/// its place on one stage; others are computed wherever they are needed.
class Dependence {
public:
  explicit Dependence(mlir::func::FuncOp func);
  bool hasPlace(mlir::Operation *op) const { return placed.contains(op); }
  /// The forward operators that have a place, in order.
  llvm::ArrayRef<mlir::Operation *> places() const { return placed.getArrayRef(); }

private:
  llvm::SetVector<mlir::Operation *> placed;
};

/// Whether the operator was made for a gradient: it computes one, or adds cotangents of one value.
bool isGradient(mlir::Operation *op);

/// Completes a training program whose forward operators have their chunks: gives gradient operators theirs,
/// adds cotangents on the stage that consumes a value before they go back, keeps a gradient per stage of
/// parameters that several stages use, and repeats the update on each of them.
mlir::LogicalResult stageTraining(mlir::func::FuncOp func, const Dependence &dependence,
                                  const dist::Pipeline &pipeline);

} // namespace tessera
#endif
