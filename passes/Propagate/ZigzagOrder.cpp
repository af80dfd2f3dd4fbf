// The zig-zag order of positions, by which the ranks of a causal ring have equal work.
#include "dialects/nn/Attributes.h"
#include "passes/Propagate/Propagation.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace tessera;

namespace {

using DimVisitor = llvm::function_ref<void(Value, int64_t dim, int factor, const nn::FactorRule &rule)>;

/// Every dimension of an operator's operands and results that runs along a factor; of a reshape every one.
void forEachDim(Operation *op, DimVisitor visit) {
  auto factorOp = dyn_cast<nn::FactorOpInterface>(op);
  if (!factorOp)
    return;
  nn::FactorRule rule = factorOp.getFactorRule();
  auto each = [&](ValueRange values, ArrayRef<nn::DimFactors> dims) {
    for (auto [value, factors] : llvm::zip(values, dims))
      for (auto [d, f] : llvm::enumerate(factors))
        if (f >= 0 || rule.isReshape)
          visit(value, d, f, rule);
  };
  each(op->getOperands(), rule.operands);
  each(op->getResults(), rule.results);
}

} // namespace

class Propagation::ZigzagOrder {
public:
  explicit ZigzagOrder(Propagation &decided) : decided(decided), atoms(decided.atoms) {}
  /// Takes the order wherever a pattern has equal work by it: on a whole dimension without padding.
  void propose(Operation *op);
  /// Gives it up where `op` needs positions in order. Returns whether it did.
  bool dropOrdered(Operation *op);
  /// Warns of the first ring whose tokens stay in order.
  void warn();

private:
  using Key = std::pair<int, int>; // a representative atom
  std::vector<Key> atomsOf(Value value, int64_t dim) const {
    std::vector<Key> list;
    auto dims = atoms.of(value);
    for (AtomId atom : dims[dim])
      list.push_back({atoms.representative(atom).cls, atoms.representative(atom).index});
    return list;
  }
  /// The ranks of the zig-zag that the operator's pattern wants, or 0.
  int64_t wanted(Operation *op) const {
    auto it = decided.decisions.find(op);
    return it != decided.decisions.end() && it->second.stream ? it->second.stream->zigzag : 0;
  }
  bool warnOf(Operation *op);

  Propagation &decided;
  const Atoms &atoms;
};

void Propagation::ZigzagOrder::propose(Operation *op) {
  int64_t ranks = wanted(op);
  if (!ranks)
    return;
  forEachDim(op, [&](Value value, int64_t d, int f, const nn::FactorRule &rule) {
    if (!rule.factors[f].ordered)
      return;
    std::vector<Key> list = atomsOf(value, d);
    if (list.size() != 1)
      return;
    int64_t padded = decided.padded[list[0]];
    if (atoms.size({list[0].first, list[0].second}) == padded && padded % (2 * ranks) == 0)
      decided.zigzag[list[0]] = ranks;
  });
}

bool Propagation::ZigzagOrder::dropOrdered(Operation *op) {
  bool changed = false;
  auto drop = [&](Value value, int64_t dim) {
    for (Key one : atomsOf(value, dim))
      changed |= decided.zigzag.erase(one) > 0;
  };
  int64_t ranks = wanted(op);
  forEachDim(op, [&](Value value, int64_t d, int f, const nn::FactorRule &rule) {
    bool needsOrder = rule.isReshape ? atoms.isBarrier(op) : rule.factors[f].ordered;
    if (!needsOrder)
      return;
    // A ring needs all its positions in one order.
    bool fits = ranks && llvm::all_of(atomsOf(value, d), [&](Key one) {
                  return decided.zigzag.count(one) && decided.zigzag[one] == ranks;
                });
    if (fits)
      return;
    drop(value, d);
    if (ranks)
      forEachDim(op, [&](Value other, int64_t dim, int g, const nn::FactorRule &) {
        if (rule.factors[g].ordered)
          drop(other, dim);
      });
  });
  return changed;
}

bool Propagation::ZigzagOrder::warnOf(Operation *op) {
  int64_t ranks = wanted(op), tokens = 0;
  if (ranks < 2 || nn::kGradOf.isOn(op))
    return false;
  bool divides = true;
  forEachDim(op, [&](Value value, int64_t d, int f, const nn::FactorRule &rule) {
    if (!rule.factors[f].ordered)
      return;
    std::vector<Key> list = atomsOf(value, d);
    if (llvm::all_of(list, [&](Key one) { return decided.zigzag.count(one); }))
      return;
    tokens = cast<RankedTensorType>(value.getType()).getDimSize(d);
    divides &= tokens % (2 * ranks) == 0;
  });
  if (!tokens)
    return false;
  std::string why = "another operator needs them so";
  if (!divides)
    why = llvm::formatv("{0} does not divide the {1} of them, which a zig-zag order would take", 2 * ranks,
                        tokens);
  op->emitWarning() << llvm::formatv("tokens of a causal ring of {0} ranks stay in order, because {1}; the "
                                     "last rank has {2:f1} times the mean rank's attention to compute",
                                     ranks, why, double(2 * ranks - 1) / double(ranks))
                           .str();
  return true;
}

void Propagation::ZigzagOrder::warn() {
  decided.module.walk(
      [&](Operation *op) { return warnOf(op) ? WalkResult::interrupt() : WalkResult::advance(); });
}

void Propagation::fixOrder() {
  ZigzagOrder order(*this);
  module.walk([&](Operation *op) { order.propose(op); });
  for (bool changed = true; changed;) {
    changed = false;
    module.walk([&](Operation *op) { changed |= order.dropOrdered(op); });
  }
  order.warn();
}
