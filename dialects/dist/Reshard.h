// The reshard planner: the cheapest sequence of collectives from one layout of a value to another.
//
// A shortest path over layouts. From each layout lead local slices, and all-gathers, all-to-alls,
// reduce-scatters, all-reduces and permutes over sets of axes, each at its modelled time. No state on the way
// is larger on a rank than the larger of the two ends. Axes that both layouts have in common as the major
// part of an atom, and axes that neither mentions, stay where they are.
//
// Flat storage is dealt with around the search: a flat source is gathered, a flat target is made from the
// rank's block as a vector, by a reduce-scatter over the axes of the storage before what remains is reduced.
#pragma once

#include "dialects/dist/Cost.h"
#include "dialects/dist/Dist.h"
#include <memory>
#include <optional>
#include <vector>

namespace tessera::dist {

/// One movement. `split` and `concat` are flat indices of atoms, as in dist.collective; -1 where the kind has
/// none.
struct ReshardStep {
  enum Local { Slice, Flatten, Unflatten };
  /// Nothing for what happens on a rank alone: `local`.
  std::optional<CollectiveKind> kind;
  AxisList axes;
  int64_t split = -1, concat = -1;
  /// The value's layout before and after the step. Its `shape` is before.localAtoms().
  Layout before, after;
  Traffic cost;
  Local local = Slice;
};

struct ReshardPlan {
  std::vector<ReshardStep> steps;
  Traffic cost;
  /// Layouts looked at; a measure of effort.
  int64_t expanded = 0;
  /// Whether a state on the way is larger than both ends; only when no other way was found.
  bool exceedsMemory = false;
  /// Number of steps that communicate.
  int64_t numCollectives() const;
};

/// Plans reshards and remembers what it planned.
class ReshardPlanner {
public:
  explicit ReshardPlanner(CostModel model);
  ~ReshardPlanner();

  /// The cheapest way from `from` to `to` for elements of `elementBytes` bytes. Fails when the layouts
  /// disagree on atoms, digits of axes do not nest, a whole value would become partial, or "micro" would have
  /// to be gathered; then reports through `emitError`, unless null.
  ///
  /// Being partial over "micro" is ignored on both sides, since the loop over microbatches has added the
  /// parts; the layouts of the steps leave it out. Both sides' tiers are ignored; steps have that of `from`.
  mlir::FailureOr<ReshardPlan> plan(double elementBytes, const Layout &from, const Layout &to,
                                    EmitError emitError = nullptr);
  /// The same for the values before and after a dist.reshard.
  mlir::FailureOr<ReshardPlan> plan(mlir::RankedTensorType from, mlir::RankedTensorType to,
                                    EmitError emitError = nullptr);

  const CostModel &costs() const { return model; }

private:
  mlir::FailureOr<ReshardPlan> search(double elementBytes, const Layout &from, const Layout &to,
                                      EmitError emitError);
  mlir::FailureOr<ReshardPlan> planFlat(double elementBytes, Layout from, Layout to, EmitError emitError);

  CostModel model;
  /// Results by sizes, not names: equal problems on other axes are found again.
  struct Memo;
  std::unique_ptr<Memo> memo;
};

/// Emits the operator of one step on what a rank holds.
mlir::Value buildStep(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value local,
                      const ReshardStep &step);

/// Bytes of one element in memory.
double elementBytes(mlir::Type type);

} // namespace tessera::dist
