// Operators computed panel by panel: what the schedule asks of them, and what becomes of a contraction.
#ifndef TESSERA_DIALECTS_NN_PANEL_H
#define TESSERA_DIALECTS_NN_PANEL_H

#include "dialects/nn/NN.h"

namespace tessera::nn {

/// Some consecutive positions along one factor of an operator, and where they begin in each operand and in
/// the result, which need not hold them all. Values that do not run along the factor have 0.
struct Panel {
  int factor = -1;
  int64_t size = 0;
  llvm::SmallVector<int64_t> operandStarts;
  int64_t resultStart = 0;
  mlir::RankedTensorType result;
};

} // namespace tessera::nn

#include "dialects/nn/PanelInterface.h.inc"
#define GET_OP_CLASSES
#include "dialects/nn/PanelOps.h.inc"

namespace tessera::nn {
/// Gives the interface to the operators that have panels: not in their definitions, which would make it known
/// to all who know the dialect.
void attachPanels(mlir::MLIRContext &context);
} // namespace tessera::nn
#endif
