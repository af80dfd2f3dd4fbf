// Which loops of a kernel's statements are one and the same dimension of its data.

#ifndef TESSERA_LIB_TARGET_COMMON_LOOPDIMENSIONS_H
#define TESSERA_LIB_TARGET_COMMON_LOOPDIMENSIONS_H

#include "lib/Target/Common/Loops.h"
#include <optional>

namespace tessera::target {

/// Equivalence classes of loops and of dimensions of slots. Two loops are in one class if one writes what the
/// other reads at the same index of a value made inside the kernel (these must agree), or, where nothing
/// speaks against it, if they read the same dimension of an argument or are at the same place of loop nests
/// with equal extents (these may agree).
class LoopDimensions {
public:
  explicit LoopDimensions(const Kernel &kernel);

  int ofLoop(unsigned statement, unsigned loop) const { return find(loopNodes[statement] + loop); }
  int ofSlot(unsigned slot, unsigned dim) const { return find(slotNodes[slot] + dim); }
  /// True if some access takes positions of the class that are not the loop's own, so that it cannot be cut
  /// into ranges.
  bool isBlocked(int dimension) const { return blocked[dimension]; }
  /// Loops of `statement` in the class.
  llvm::SmallVector<int> loopsIn(unsigned statement, int dimension) const;

private:
  int find(int node) const {
    while (parent[node] != node)
      node = parent[node];
    return node;
  }
  void join(int a, int b);
  void joinIfPossible(int a, int b);
  void connect(unsigned statement, const Access &access);

  const Kernel &kernel;
  std::vector<int> parent, loopNodes, slotNodes;
  std::vector<int64_t> extent;
  std::vector<bool> blocked;
};

/// Coefficients of an expression that is linear in the loop variables, and its constant as the last element;
/// nothing if it is not or has symbols.
std::optional<llvm::SmallVector<int64_t>> coefficients(mlir::AffineExpr expr, unsigned loops);

} // namespace tessera::target

#endif // TESSERA_LIB_TARGET_COMMON_LOOPDIMENSIONS_H
