// A collective of the dialect in the measures that the runtime's cost formulas take.
#pragma once

#include "dialects/dist/Dist.h"
#include "dialects/dist/Reshard.h"
#include "runtime/comm/collective_cost.h"

namespace tessera::dist {

/// `shape`: the local source by atoms; `split` and `concat` are ignored by kinds that have none.
inline rt::CollectiveSize collectiveSize(CollectiveKind kind, llvm::ArrayRef<AxisRef> axes,
                                         mlir::Type element, llvm::ArrayRef<int64_t> shape, int64_t split,
                                         int64_t concat) {
  rt::CollectiveSize size;
  size.kind = kind;
  size.ranks = product(axes);
  size.elementBytes = int64_t(elementBytes(element));
  size.shape.assign(shape.begin(), shape.end());
  size.split = split;
  size.concat = concat;
  return size;
}

inline rt::CollectiveSize collectiveSize(CollectiveInterface op) {
  CollectiveSpec spec = op.getSpec();
  return collectiveSize(spec.kind, spec.axes, op.getSource().getType().getElementType(), spec.shape,
                        spec.split.value_or(0), spec.concat.value_or(0));
}

/// Of a permute over `axes`: how many ranks of a group receive their block from another one. The same in all
/// groups, since the other axes stay where they are.
inline int64_t movedByPermute(const Mesh &mesh, llvm::ArrayRef<AxisRef> axes, const Layout &from,
                              const Layout &to) {
  llvm::SmallVector<int64_t> group = mesh.group(0, axes);
  // As the runtime numbers them: by the axes of all atoms, in order.
  auto blocks = [&](const Layout &layout) {
    std::vector<int64_t> numbers;
    for (int64_t rank : group) {
      int64_t number = 0;
      for (const Atom *atom : layout.atoms()) {
        number = number * product(atom->axes) + mesh.index(rank, atom->axes);
      }
      numbers.push_back(number);
    }
    return numbers;
  };
  int64_t moved = 0;
  for (auto [member, source] : llvm::enumerate(rt::permuteSources(blocks(from), blocks(to))))
    moved += source != int64_t(member);
  return moved;
}

} // namespace tessera::dist
