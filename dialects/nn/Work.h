// What an operator does, as far as its time depends on it: everything that estimates time asks here, and a
// machine for its rates (dialects/dist/Machine.h).
#ifndef TESSERA_DIALECTS_NN_WORK_H
#define TESSERA_DIALECTS_NN_WORK_H

#include "llvm/ADT/StringRef.h"

namespace mlir {
class Operation;
}

namespace tessera::nn {

/// Stream: every element by itself. Row: rows as a whole (softmax, norms, reductions). Gather: rows that
/// indices name. Product: matrix products and convolutions. Attention. Update: an optimizer's step.
enum class WorkClass { Stream, Row, Gather, Product, Attention, Update };
llvm::StringRef workClassName(WorkClass kind);

struct Work {
  WorkClass kind = WorkClass::Stream;
  /// Floating-point operations, where they may take the time; and whether they are bf16's or f16's.
  double flops = 0;
  bool half = false;
  /// Of operands and results, each once.
  double bytes = 0;
};

/// The work of an operator of any dialect, for its (global or local) types.
Work workOf(mlir::Operation *op);

} // namespace tessera::nn
#endif
