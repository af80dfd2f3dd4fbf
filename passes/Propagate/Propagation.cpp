// What deciding and emitting share: layouts of placements, and the blocks that sizes are padded to.
#include "passes/Propagate/Propagation.h"
#include "dialects/nn/Attributes.h"
#include "llvm/Support/FormatVariadic.h"
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

AxisList Propagation::passed(Operation *op, const Decision &d) {
  return passedOn(op, d,
                  {[&](Value value, Operation *user) { return homeOf(value, user); }, nullptr, nullptr});
}

Placement Propagation::rawOf(const Decision &d, unsigned result, ArrayRef<AxisRef> passed) {
  Placement raw = d.raw(result);
  raw.partial.append(passed.begin(), passed.end());
  llvm::sort(raw.partial);
  return raw;
}

void Propagation::fixOrder() {
  auto atomsOf = [&](Value value, int64_t dim) {
    std::vector<std::pair<int, int>> list;
    auto dims = atoms.of(value);
    for (AtomId atom : dims[dim])
      list.push_back({atoms.representative(atom).cls, atoms.representative(atom).index});
    return list;
  };
  using Visit = llvm::function_ref<void(Operation *, Value, int64_t dim, int factor, const nn::FactorRule &)>;
  auto forEachDim = [&](Operation *op, Visit visit) {
    auto factorOp = dyn_cast<nn::FactorOpInterface>(op);
    if (!factorOp)
      return;
    nn::FactorRule rule = factorOp.getFactorRule();
    auto each = [&](ValueRange values, ArrayRef<nn::DimFactors> dims) {
      for (auto [value, factors] : llvm::zip(values, dims))
        for (auto [d, f] : llvm::enumerate(factors))
          if (f >= 0 || rule.isReshape)
            visit(op, value, d, f, rule);
    };
    each(op->getOperands(), rule.operands);
    each(op->getResults(), rule.results);
  };
  auto wanted = [&](Operation *op) {
    auto it = decisions.find(op);
    return it != decisions.end() && it->second.stream ? it->second.stream->zigzag : 0;
  };
  // Where positions go round evenly so: a whole dimension without padding.
  module.walk([&](Operation *op) {
    if (int64_t ranks = wanted(op))
      forEachDim(op, [&](Operation *, Value value, int64_t d, int f, const nn::FactorRule &rule) {
        auto list = rule.factors[f].ordered ? atomsOf(value, d) : decltype(atomsOf(value, d))();
        if (list.size() == 1 && atoms.size({list[0].first, list[0].second}) == padded[list[0]] &&
            padded[list[0]] % (2 * ranks) == 0)
          zigzag[list[0]] = ranks;
      });
  });
  // Less what somebody else needs in order.
  for (bool changed = true; changed;) {
    changed = false;
    module.walk([&](Operation *op) {
      forEachDim(op, [&](Operation *, Value value, int64_t d, int f, const nn::FactorRule &rule) {
        bool needsOrder = rule.isReshape ? atoms.isBarrier(op) : rule.factors[f].ordered;
        if (!needsOrder)
          return;
        // A ring needs all its positions in one order.
        int64_t ranks = wanted(op);
        bool fits = ranks && llvm::all_of(atomsOf(value, d), [&](auto one) {
                      return zigzag.count(one) && zigzag[one] == ranks;
                    });
        auto drop = [&](Value v, int64_t dim) {
          for (auto one : atomsOf(v, dim))
            changed |= zigzag.erase(one) > 0;
        };
        if (fits)
          return;
        drop(value, d);
        if (ranks)
          forEachDim(op, [&](Operation *, Value other, int64_t dim, int g, const nn::FactorRule &) {
            if (rule.factors[g].ordered)
              drop(other, dim);
          });
      });
    });
  }
  // What is left in order has its price.
  bool isKnown = false;
  module.walk([&](Operation *op) {
    int64_t ranks = wanted(op), tokens = 0;
    if (ranks < 2 || isKnown || nn::kGradOf.isOn(op))
      return;
    bool divides = true;
    forEachDim(op, [&](Operation *, Value value, int64_t d, int f, const nn::FactorRule &rule) {
      auto list = rule.factors[f].ordered ? atomsOf(value, d) : decltype(atomsOf(value, d))();
      if (list.empty() || llvm::all_of(list, [&](auto one) { return zigzag.count(one); }))
        return;
      tokens = cast<RankedTensorType>(value.getType()).getDimSize(d);
      divides &= tokens % (2 * ranks) == 0;
    });
    if (!tokens)
      return;
    isKnown = true;
    op->emitWarning()
        << llvm::formatv(
               "tokens of a causal ring of {0} ranks stay in order, because {1}; the last rank has {2:f1} "
               "times the mean rank's "
               "attention to compute",
               ranks,
               divides
                   ? std::string("another operator needs them so")
                   : llvm::formatv("{0} does not divide the {1} of them, which a zig-zag order would take",
                                   2 * ranks, tokens)
                         .str(),
               double(2 * ranks - 1) / double(ranks))
               .str();
  });
}

void Propagation::fixPadding() {
  for (auto [id, n] : blocks) {
    int64_t size = atoms.size({id.first, id.second});
    padded[id] = (size + n - 1) / n * n;
  }
}
