// Lazy reduction: which cotangents stay partial sums because what becomes of them is reduced anyway.
#ifndef TESSERA_PASSES_PROPAGATE_LAZY_H
#define TESSERA_PASSES_PROPAGATE_LAZY_H

#include "dialects/nn/NN.h"
#include "passes/Propagate/Placement.h"

namespace tessera {

/// What these questions need to know of the propagation under way.
struct Outlook {
  /// Where a value is between operators.
  llvm::function_ref<Placement(mlir::Value, mlir::Operation *)> home;
  /// How an operator is or will be computed where the forward operator fixes that; operand `operand` will be
  /// at a placement.
  llvm::function_ref<std::optional<Decision>(mlir::Operation *, unsigned operand, const Placement &)>
      decision;
  /// Whether what is summed here is reduced only at the end of the step: the cotangent of a parameter, or of
  /// a value computed from parameters alone.
  llvm::function_ref<bool(nn::AccOp)> isDeferred;
};

/// The axes over which the results of `op` are partial because its operand `operand`, placed at `at`, is:
/// those of `at`, if `op` is linear in it and computes nothing over these axes, else none (it is reduced
/// before).
dist::AxisList inheritedPartial(mlir::Operation *op, unsigned operand, const Placement &at,
                                const Decision &decision);
/// The same for the one operand that is partial.
dist::AxisList inheritedPartial(mlir::Operation *op, const Decision &decision, const Outlook &outlook);

/// Whether the cotangent `acc` is best left at `at`, a partial sum over more than its primal's home:
/// everything computed from it is linear and either belongs to parameters, or is added to another cotangent
/// that is partial over the same axes. So it is for keys and values whose heads are replicated over a part of
/// the axis that the queries are split over.
bool staysPartial(nn::AccOp acc, const Placement &at, const Outlook &outlook);

} // namespace tessera
#endif
