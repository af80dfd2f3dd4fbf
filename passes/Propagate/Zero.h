// ZeRO: training state stored flat, in pieces over axes that do not split it already.
#ifndef TESSERA_PASSES_PROPAGATE_ZERO_H
#define TESSERA_PASSES_PROPAGATE_ZERO_H

#include "dialects/nn/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Propagate/Placement.h"

namespace tessera {

/// What the assign phase left in the module.
struct Zero {
  /// What a step has in pieces throughout. 1: optimizer state, 2: gradients too, 3: parameters too. Between
  /// steps all that is trained is in pieces.
  int64_t stage = 0;
  dist::AxisList axes;
  /// Whether a step gathers a parameter once for all that reads it, as stages 1 and 2 do: an update changes
  /// pieces in place, which are gathered where the next step needs them, beside its other work.
  bool gathersOnce() const { return stage < 3 || regather == dist::When::Never; }
  /// Whether the backward gathers again what the forward gathered of a value; `keeps`: the value's pattern
  /// would keep it.
  bool gathersAgain(bool keeps) const {
    return regather == dist::When::Always || (regather == dist::When::Auto && !keeps);
  }
  /// Whether the variable is stored in pieces: what an update changes, or under stage 3 any parameter.
  bool stores(nn::VariableOp variable) const;
  /// When the backward gathers again: `auto` leaves it to the pattern of the value.
  dist::When regather = dist::When::Auto;

  static Zero of(mlir::ModuleOp module);
  /// Flat storage of a value that is laid out so, over those of the axes that do not split it. One element is
  /// not cut.
  Placement cut(Placement placement) const;
};

/// Whether the operator runs in the backward.
bool runsBackward(mlir::Operation *op);

/// Lets the backward compute again what is computed from parameters alone (a cast, a transpose): it would
/// keep gathered parameters whole from the forward on.
void recomputeFromParameters(mlir::func::FuncOp func);

} // namespace tessera
#endif
