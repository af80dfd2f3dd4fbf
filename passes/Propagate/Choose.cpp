// What an operator splits: as its pattern says, as its forward operator does, or as its operands lie.
#include "dialects/dist/Attributes.h"
#include "dialects/nn/Attributes.h"
#include "passes/Assign/Pattern.h"
#include "passes/Propagate/Propagation.h"
#include <set>

using namespace mlir;
using namespace tessera;
using dist::AxisList;
using dist::AxisRef;
using dist::Layout;

void Propagation::placeStreamed(nn::FactorRule rule, nn::FactorRule forward, llvm::function_ref<int(int)> map,
                                Decision &d) const {
  // What runs along the same factors as an operand of the forward operator whose blocks move is placed alike.
  auto blocksOf = [&](const nn::DimFactors &dims) -> const FactorSplits * {
    std::set<int> mapped;
    for (int f : dims)
      mapped.insert(map(f));
    for (auto &[operand, splits] : d.stream->blocks)
      if (mapped == std::set<int>(forward.operands[operand].begin(), forward.operands[operand].end()))
        return &splits;
    return nullptr;
  };
  auto placed = [&](const FactorSplits &splits) {
    Assignment own(d.atoms.factors.size());
    for (int f = 0, e = rule.factors.size(); f < e; ++f)
      for (const FactorSplit &split : splits)
        if (map(f) == split.factor)
          own.spread(d.atoms, f, split.axes, atoms);
    for (auto [f, factor] : llvm::enumerate(d.atoms.factors))
      if (llvm::none_of(splits, [&](const FactorSplit &split) {
            return factor.factor >= 0 && map(factor.factor) == split.factor;
          }))
        own.extend(f, d.axes.axes[f]);
    return own;
  };
  for (auto [i, dims] : llvm::enumerate(rule.operands))
    if (const FactorSplits *splits = blocksOf(dims))
      d.streamedOperands[i] = placed(*splits).use(d.atoms, i);
  for (auto [r, dims] : llvm::enumerate(rule.results))
    if (const FactorSplits *splits = blocksOf(dims)) {
      Placement raw = placed(*splits).raw(d.atoms, r);
      llvm::erase_if(raw.partial, [&](const AxisRef &axis) {
        return llvm::any_of(*splits,
                            [&](const FactorSplit &split) { return dist::overlapsAny(axis, split.axes); });
      });
      d.streamedResults[r] = raw;
    }
}

bool Propagation::follow(Operation *op, Decision &d) {
  auto gradOf = nn::kGradOf.of(op);
  if (!gradOf || gradOf.getMap().empty())
    return false;
  auto it = forward.find(gradOf.getId());
  if (it == forward.end() || !decisions.contains(it->second))
    return false;
  const Decision &f = decisions[it->second];
  for (auto [i, factor] : llvm::enumerate(d.atoms.factors)) {
    if (factor.factor < 0 || factor.factor >= int(gradOf.getMap().size()))
      continue;
    int64_t target = gradOf.getMap()[factor.factor];
    for (auto [j, other] : llvm::enumerate(f.atoms.factors))
      // A whole dimension is split only where the pattern that expands the operator said so.
      if (target >= 0 && other.factor == target && other.index == factor.index &&
          (factor.kind != nn::FactorKind::Unsplit || other.kind == nn::FactorKind::Unsplit))
        d.axes.extend(i, f.axes.axes[j]);
  }
  if (hasListener())
    remark(op, "its gradient is split as it is");
  d.keepsGathered = f.keepsGathered;
  if (f.stream) {
    d.stream = f.stream;
    placeStreamed(
        cast<nn::FactorOpInterface>(op).getFactorRule(),
        cast<nn::FactorOpInterface>(it->second).getFactorRule(),
        [&](int factor) {
          return factor >= 0 && factor < int(gradOf.getMap().size()) ? int(gradOf.getMap()[factor]) : -1;
        },
        d);
    // The gradient of a bias, say, has nothing that moves.
    if (!d.streamedOperands.empty() || !d.streamedResults.empty())
      d.expander = f.expander;
  }
  return true;
}

// The operands whose layouts an operator may follow.
static SmallVector<unsigned> tensorOperands(Operation *op, llvm::function_ref<bool(Value)> isFree) {
  SmallVector<unsigned> operands;
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    if (isa<RankedTensorType>(op->getOperand(i).getType()) && !isFree(op->getOperand(i)))
      operands.push_back(i);
  return operands;
}

void Propagation::followOperands(Operation *op, int first, const Decision &d, Assignment &axes) const {
  auto follow = [&](unsigned i) { axes.project(d.atoms, i, homeOf(op->getOperand(i), op)); };
  if (first >= 0)
    follow(first);
  for (unsigned i : tensorOperands(op, [&](Value value) { return isFree(value); }))
    if (int(i) != first)
      follow(i);
  if (first >= 0 && d.atoms.runsFlat(first)) {
    axes.flat = homeOf(op->getOperand(first), op).flat;
    axes.flatFactors = d.atoms.operands[first];
  }
}

LogicalResult Propagation::choosePattern(Operation *op, dist::PatternAttr attr, Decision &d) {
  FailureOr<PatternUse> use = resolvePattern(op, attr, mesh);
  if (failed(use))
    return failure();
  const tessera::Pattern *pattern = use->pattern;
  auto factorOp = cast<nn::FactorOpInterface>(op);
  if (Applies applies = pattern->applies(factorOp, use->axes); !applies)
    return op->emitOpError(applies.why);
  struct Homes : Surroundings {
    Homes(const Propagation &self, Operation *op, const OpAtoms &atoms) : self(self), op(op), atoms(atoms) {}
    AxisList home(unsigned operand, int factor) const override {
      AxisList list;
      if (!self.isFree(op->getOperand(operand)))
        for (auto [f, axes] :
             llvm::zip(atoms.operands[operand], self.homeOf(op->getOperand(operand), op).atoms))
          if (atoms.factors[f].factor == factor)
            list.append(axes.begin(), axes.end());
      return list;
    }
    const Propagation &self;
    Operation *op;
    const OpAtoms &atoms;
  };
  Choice choice = pattern->choose(factorOp, use->axes, Homes(*this, op, d.atoms));
  auto spread = [&](const FactorSplits &splits, Assignment &axes) {
    for (const FactorSplit &split : splits)
      axes.spread(d.atoms, split.factor, split.axes, atoms);
  };
  spread(choice.compute, d.axes);
  followOperands(op, choice.firstFollowed, d, d.axes);
  for (auto &[operand, splits] : choice.storage) {
    Assignment axes(d.atoms.factors.size());
    spread(splits, axes);
    d.storage[operand] = axes.use(d.atoms, operand);
  }
  for (auto &[result, splits] : choice.homes) {
    Assignment axes(d.atoms.factors.size());
    spread(splits, axes);
    for (auto [f, factor] : llvm::enumerate(d.atoms.factors))
      if (llvm::none_of(splits, [&](const FactorSplit &split) { return split.factor == factor.factor; }))
        axes.extend(f, d.axes.axes[f]);
    d.homes[result] = axes.raw(d.atoms, result).withoutPartial();
  }
  auto origin = dist::kOrigin.of(op);
  if (hasListener())
    remark(op, "pattern \"" + attr.getName() + "\" over " + dist::toString(attr.getAxes()) +
                   (origin ? ", which " + origin.getValue() + " gives it," : Twine("")) +
                   " says how it is split");
  d.keepsGathered = choice.keepsGathered;
  if (choice.stream) {
    d.stream = choice.stream;
    d.expander = attr;
    nn::FactorRule rule = factorOp.getFactorRule();
    placeStreamed(rule, rule, [](int f) { return f; }, d);
  }
  return success();
}

// Follows the operand that makes the others' moves cheapest.
void Propagation::chooseCheapest(Operation *op, Decision &d) {
  SmallVector<unsigned> operands = tensorOperands(op, [&](Value value) { return isFree(value); });
  Assignment best(d.atoms.factors.size());
  std::tuple<double, int, int64_t> bestKey;
  SmallVector<std::pair<unsigned, double>> costs; // seconds, by candidate
  unsigned chosen = 0;
  for (unsigned candidate : operands) {
    Assignment axes(d.atoms.factors.size());
    followOperands(op, candidate, d, axes);
    double seconds = 0;
    for (unsigned i : operands)
      seconds += reshardSeconds(op->getOperand(i), homeOf(op->getOperand(i), op), axes.use(d.atoms, i));
    std::tuple<double, int, int64_t> key{seconds, distance.lookup(op->getOperand(candidate)), -axes.ways()};
    costs.push_back({candidate, seconds});
    if (candidate == operands.front() || key < bestKey) {
      best = axes;
      bestKey = key;
      chosen = candidate;
    }
  }
  d.axes = best;
  remarkFollowed(op, chosen, costs);
}

LogicalResult Propagation::choose(Operation *op, Decision &d) {
  if (auto attr = dist::kPattern.of(op))
    return choosePattern(op, attr, d);
  chooseCheapest(op, d);
  return success();
}
