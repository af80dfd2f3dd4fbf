// What deciding and emitting share: layouts of placements, and the blocks that sizes are padded to.
#include "passes/Propagate/Propagation.h"
#include "dialects/nn/Attributes.h"
#include <numeric>

using namespace mlir;
using namespace tessera;
using dist::AxisList;
using dist::AxisRef;
using dist::Layout;

Layout Propagation::layout(Value value, const Placement &placement, bool final) const {
  Layout result;
  size_t k = 0;
  for (auto &dim : atoms.of(value)) {
    SmallVector<dist::Atom, 1> list;
    for (AtomId id : dim) {
      AtomId one = atoms.representative(id);
      int64_t size = atoms.size(id), unit = mesh.numRanks() * micro;
      auto it = padded.find({one.cls, one.index});
      int64_t full = final ? (it == padded.end() ? size : it->second) : (size + unit - 1) / unit * unit;
      list.push_back(dist::Atom(size, full, placement.atoms[k++]));
      if (auto order = zigzag.find({one.cls, one.index}); final && order != zigzag.end())
        list.back().zigzag = order->second;
    }
    result.dims.push_back(list);
  }
  result.partial = placement.partial;
  result.flat = placement.flat;
  return result.canonical();
}

RankedTensorType Propagation::typed(Value value, const Placement &placement) const {
  auto type = cast<RankedTensorType>(value.getType());
  return dist::withLayout(RankedTensorType::get(type.getShape(), type.getElementType()),
                          layout(value, placement, true));
}

double Propagation::reshardSeconds(Value value, const Placement &from, const Placement &to) {
  if (from == to)
    return 0;
  auto type = cast<RankedTensorType>(value.getType());
  double bytes = dist::elementBytes(type.getElementType());
  auto plan = planner.plan(bytes, layout(value, from, false), layout(value, to, false));
  return succeeded(plan) ? plan->cost.seconds : 1e9;
}

void Propagation::noteAxes(Value value, const Placement &placement) {
  for (auto [id, axes] : llvm::zip(atoms.flat(value), placement.atoms)) {
    AtomId one = atoms.representative(id);
    int64_t &n = blocks[{one.cls, one.index}];
    n = std::lcm(std::max<int64_t>(n, 1), dist::product(axes));
  }
}

Placement Propagation::homeOf(Value value, Operation *user) const {
  // The count of labels precedes the loop over microbatches and reads the whole input.
  if (nn::kPrologue.isOn(user))
    if (auto it = inputHomes.find(value); it != inputHomes.end())
      return it->second;
  auto it = homes.find(value);
  return it == homes.end() ? whole(value) : it->second;
}

AxisList Propagation::inheritedPartial(Operation *op, const Decision &d) {
  return tessera::inheritedPartial(
      op, d, {[&](Value value, Operation *user) { return homeOf(value, user); }, nullptr, nullptr});
}

Placement Propagation::rawOf(const Decision &d, unsigned result, ArrayRef<AxisRef> inherited) {
  Placement raw = d.raw(result);
  raw.partial.append(inherited.begin(), inherited.end());
  llvm::sort(raw.partial);
  return raw;
}

void Propagation::fixPadding() {
  for (auto [id, n] : blocks) {
    int64_t size = atoms.size({id.first, id.second});
    padded[id] = (size + n - 1) / n * n;
  }
}
