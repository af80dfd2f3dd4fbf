// Dimension classes and their atoms, program-wide.
//
// A class is a set of (value, dimension) pairs that must be cut alike because some operator runs one factor
// along them: the batch, the hidden size or the vocabulary of a model is one class each, however many
// operators touch it, gradients and variables included. Reshapes split classes into atoms: `[b,s,3nd] ->
// [b,s,3,n,d]` refines the class of 3nd into the atoms 3, n, d wherever it occurs. Afterwards a reshape is
// the identity on the flat list of atoms of its operand.
#ifndef TESSERA_PASSES_PROPAGATE_ATOMS_H
#define TESSERA_PASSES_PROPAGATE_ATOMS_H

#include "dialects/nn/NN.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/StringMap.h"
#include <set>

namespace tessera {

/// An atom class: atom `index` (major to minor) of class `cls`.
struct AtomId {
  int cls = -1;
  int index = 0;
  bool operator==(const AtomId &) const = default;
  auto operator<=>(const AtomId &) const = default;
};

class Atoms {
public:
  /// Analyses every function and variable of the module, which runs `micro` microbatches. Reports operators
  /// it cannot understand.
  static mlir::FailureOr<Atoms> analyse(mlir::ModuleOp module, int64_t micro = 1);

  /// The atoms of each dimension of a value; none for extent 1.
  llvm::SmallVector<llvm::SmallVector<AtomId, 1>> of(mlir::Value value) const;
  llvm::SmallVector<llvm::SmallVector<AtomId, 1>> ofVariable(llvm::StringRef name) const;
  /// The same as one list.
  llvm::SmallVector<AtomId> flat(mlir::Value value) const;
  int64_t size(AtomId atom) const;
  int64_t numAtoms(int cls) const { return sizes.at(cls).size(); }
  /// Reshapes join atoms of different classes; the joined ones are padded alike. The one that stands for all.
  AtomId representative(AtomId atom) const;
  /// Whether some operator must have this atom whole.
  bool unsplitSomewhere(AtomId atom) const;
  /// Whether this atom tells microbatches apart: the major one of a batch that they divide. What is minor to
  /// it is a batch like that of a single microbatch, on which axes come and go without moving rows from one
  /// microbatch to another.
  bool isMicro(AtomId atom) const;
  /// Atoms that this reshape cannot follow; they must be whole at it.
  bool isBarrier(mlir::Operation *reshape) const { return barriers.contains(reshape); }

private:
  int node(void *key, int dim, int64_t size);
  int find(int node) const;
  void unite(int a, int b);
  mlir::LogicalResult visit(mlir::Operation *op);
  bool refine(mlir::Operation *reshape);
  void refineAll();
  /// Cuts the dimensions that are split into microbatches; false if one of them cannot be.
  bool cutMicrobatches(mlir::ModuleOp module, int64_t micro);
  llvm::SmallVector<llvm::SmallVector<AtomId, 1>> lookup(void *key, unsigned rank) const;

  llvm::SmallVector<mlir::Operation *> reshapes;
  llvm::DenseMap<std::pair<void *, int>, int> nodes;
  llvm::SmallVector<int> parent;
  llvm::SmallVector<int64_t> extents;
  std::set<int> microClasses;                            // roots whose major atom tells microbatches apart
  llvm::DenseMap<int, llvm::SmallVector<int64_t>> sizes; // root -> atom sizes, major to minor
  llvm::DenseMap<int, std::set<int64_t>> breaks;         // root -> trailing products strictly inside
  llvm::EquivalenceClasses<std::pair<int, int>> joined;
  std::set<std::pair<int, int>> unsplit; // representatives
  llvm::DenseSet<mlir::Operation *> barriers;
  llvm::StringMap<mlir::Operation *> variables;
};

} // namespace tessera
#endif
