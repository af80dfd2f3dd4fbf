// Where values are while propagation decides: axes per atom and partial axes, without padding, which is fixed
// only at the end; and operators at the granularity of atoms.
#ifndef TESSERA_PASSES_PROPAGATE_PLACEMENT_H
#define TESSERA_PASSES_PROPAGATE_PLACEMENT_H

#include "dialects/dist/Dist.h"
#include "dialects/dist/Layout.h"
#include "passes/Assign/Pattern.h"
#include "passes/Propagate/Atoms.h"
#include <map>

namespace tessera {

/// Axes per atom (of all dimensions of a value in a row), partial axes, and those of flat storage.
struct Placement {
  llvm::SmallVector<dist::AxisList> atoms;
  dist::AxisList partial, flat;
  bool operator==(const Placement &) const = default;
  Placement withoutPartial() const { return {atoms, {}, flat}; }
  Placement withoutFlat() const { return {atoms, partial, {}}; }
};

/// An operator's loops cut at atoms: every flat atom of every operand and result is one of `factors`.
struct OpAtoms {
  struct Factor {
    int factor; // of the operator's rule; -1 for a reshape
    int index;  // which atom of it
    AtomId atom;
    nn::FactorKind kind;
  };
  llvm::SmallVector<Factor> factors;
  llvm::SmallVector<llvm::SmallVector<int>> operands, results;

  static OpAtoms of(mlir::Operation *op, const Atoms &atoms);
  /// Whether the operator can run on pieces of flat storage of this operand: element by element, all that has
  /// its loops having them in the same order.
  bool runsFlat(unsigned operand) const;
};

/// Axes per factor of an OpAtoms. No axis occurs twice.
struct Assignment {
  llvm::SmallVector<dist::AxisList> axes;
  /// Where the operator runs on pieces of flat storage: the axes that cut it, and the factors of what is cut.
  dist::AxisList flat;
  llvm::SmallVector<int> flatFactors;
  explicit Assignment(size_t n = 0) : axes(n) {}

  /// Appends to factor `f` the part of `list` up to the first axis that overlaps one already used.
  void extend(int f, llvm::ArrayRef<dist::AxisRef> list);
  /// Gives every factor without axes those that operand `operand`, placed at `home`, has; unsplit factors
  /// stay whole.
  void project(const OpAtoms &op, unsigned operand, const Placement &home);
  void projectResult(const OpAtoms &op, unsigned result, const Placement &home);
  /// Axes of a named factor, major to minor: spread over its atoms, skipping atoms that some operator needs
  /// whole while there are siblings, splitting axes into sub-axes where an atom is too small to use all of
  /// one. What no atom can use is left out (the value is replicated over it).
  void spread(const OpAtoms &op, int factor, llvm::ArrayRef<dist::AxisRef> list, const Atoms &atoms);

  Placement use(const OpAtoms &op, unsigned operand) const;
  Placement raw(const OpAtoms &op, unsigned result) const;
  /// In how many ways the work is split.
  int64_t ways() const;

private:
  void take(const OpAtoms &op, llvm::ArrayRef<int> factors, const Placement &home);
  bool used(const dist::AxisRef &axis) const;
};

/// How an operator is computed: its loops, and the axes that split each.
struct Decision {
  OpAtoms atoms;
  Assignment axes;
  /// What the pattern says of operands' storage and results' homes.
  std::map<unsigned, Placement> storage = {}, homes = {};
  /// Of operands and results whose blocks move while the operator works: where the first block is, the last
  /// one ends.
  std::map<unsigned, Placement> streamedOperands = {}, streamedResults = {};
  /// The stream and the pattern that expands it.
  std::optional<Stream> stream = {};
  /// Whether what is gathered for the operator is kept for its gradients.
  bool keepsGathered = false;
  dist::PatternAttr expander = {};

  Placement use(unsigned operand) const {
    auto it = streamedOperands.find(operand);
    return it == streamedOperands.end() ? axes.use(atoms, operand) : it->second;
  }
  Placement raw(unsigned result) const {
    auto it = streamedResults.find(result);
    return it == streamedResults.end() ? axes.raw(atoms, result) : it->second;
  }
  static Decision undecided(mlir::Operation *op, const Atoms &atoms) {
    Decision d{OpAtoms::of(op, atoms), Assignment()};
    d.axes = Assignment(d.atoms.factors.size());
    return d;
  }
};

} // namespace tessera
#endif
