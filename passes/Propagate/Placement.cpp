#include "passes/Propagate/Placement.h"
#include "dialects/nn/ByNumber.h"
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace tessera;
using dist::AxisList;
using dist::AxisRef;

OpAtoms OpAtoms::of(Operation *op, const Atoms &atoms) {
  OpAtoms result;
  nn::FactorRule rule = cast<nn::FactorOpInterface>(op).getFactorRule();
  if (rule.isReshape) {
    bool barrier = atoms.isBarrier(op);
    auto add = [&](Value value, SmallVector<SmallVector<int>> &out, bool fresh) {
      SmallVector<int> list;
      for (auto [k, atom] : llvm::enumerate(atoms.flat(value))) {
        if (fresh)
          result.factors.push_back(
              {-1, int(k), atom, barrier ? nn::FactorKind::Unsplit : nn::FactorKind::PassThrough});
        list.push_back(fresh ? result.factors.size() - 1 : k);
      }
      out.push_back(list);
    };
    add(op->getOperand(0), result.operands, true);
    add(op->getResult(0), result.results, barrier);
    return result;
  }
  DenseMap<std::pair<int, int>, int> index;
  auto add = [&](ValueRange values, ArrayRef<nn::DimFactors> dims, SmallVector<SmallVector<int>> &out) {
    for (auto [value, factors] : llvm::zip(values, dims)) {
      SmallVector<int> list;
      if (isa<RankedTensorType>(value.getType())) {
        auto byDim = atoms.of(value);
        for (auto [d, f] : llvm::enumerate(factors))
          for (auto [j, atom] : llvm::enumerate(byDim[d])) {
            // A dimension without a factor that has atoms nevertheless is a loop of its own, whole.
            int key = f < 0 ? -2 - int(out.size() * 64 + d) : f;
            auto [it, isNew] = index.try_emplace({key, int(j)}, result.factors.size());
            // Of what is found by number each rank needs a contiguous block: only the major atom may be
            // split.
            bool isWhole = f < 0 || (j > 0 && nn::isByNumber(cast<nn::FactorOpInterface>(op), rule, f));
            if (isNew)
              result.factors.push_back(
                  {f, int(j), atom, isWhole ? nn::FactorKind::Unsplit : rule.factors[f].kind});
            list.push_back(it->second);
          }
      }
      out.push_back(list);
    }
  };
  add(op->getOperands(), rule.operands, result.operands);
  add(op->getResults(), rule.results, result.results);
  return result;
}

bool OpAtoms::runsFlat(unsigned operand) const {
  const SmallVector<int> &loops = operands[operand];
  auto agrees = [&](const SmallVector<int> &other) {
    return other == loops || llvm::none_of(other, [&](int f) { return llvm::is_contained(loops, f); });
  };
  auto byElement = [&](int f) {
    return factors[f].kind == nn::FactorKind::PassThrough || factors[f].kind == nn::FactorKind::Reduction;
  };
  return !loops.empty() && llvm::all_of(loops, byElement) && llvm::all_of(operands, agrees) &&
         llvm::all_of(results, agrees);
}

bool Assignment::used(const AxisRef &axis) const {
  return llvm::any_of(axes, [&](const AxisList &list) { return dist::overlapsAny(axis, list); });
}

void Assignment::extend(int f, ArrayRef<AxisRef> list) {
  for (const AxisRef &axis : list) {
    if (used(axis))
      return;
    axes[f].push_back(axis);
  }
}

void Assignment::take(const OpAtoms &op, ArrayRef<int> factors, const Placement &home) {
  for (auto [f, list] : llvm::zip(factors, home.atoms))
    if (axes[f].empty() && op.factors[f].kind != nn::FactorKind::Unsplit)
      extend(f, list);
}

void Assignment::project(const OpAtoms &op, unsigned operand, const Placement &home) {
  take(op, op.operands[operand], home);
}

void Assignment::projectResult(const OpAtoms &op, unsigned result, const Placement &home) {
  take(op, op.results[result], home);
}

// Positions a rank holds when n blocks share `size`.
static int64_t blockOf(int64_t size, int64_t n) { return (size + n - 1) / n; }

static int64_t smallestPrime(int64_t n) {
  for (int64_t p = 2; p * p <= n; ++p)
    if (n % p == 0)
      return p;
  return n;
}

void Assignment::spread(const OpAtoms &op, int factor, ArrayRef<AxisRef> list, const Atoms &atoms) {
  SmallVector<int> eligible, all;
  int micro = -1;
  for (auto [i, f] : llvm::enumerate(op.factors))
    if (f.factor == factor && atoms.isMicro(f.atom)) {
      micro = i;
    } else if (f.factor == factor) {
      all.push_back(i);
      if (!atoms.unsplitSomewhere(f.atom))
        eligible.push_back(i);
    }
  if (all.size() == 1 || eligible.empty())
    eligible = all;
  size_t at = 0;
  for (AxisRef rest : list) {
    if (used(rest))
      return;
    if (micro >= 0 && rest.name == dist::kMicroAxis) {
      axes[micro].push_back(rest);
      continue;
    }
    // Prime by prime: an atom that is full passes the rest of the axis on to the next; the last one takes it
    // padded where that still shortens the blocks.
    while (rest.size > 1 && at < eligible.size()) {
      int64_t prime = smallestPrime(rest.size), size = atoms.size(op.factors[eligible[at]].atom);
      AxisList &axes = this->axes[eligible[at]];
      int64_t have = dist::product(axes);
      bool last = at + 1 == eligible.size();
      if (have * prime > size && !(last && blockOf(size, have * prime) < blockOf(size, have))) {
        ++at;
        continue;
      }
      if (prime == rest.size) {
        axes.push_back(rest);
        rest.size = 1;
      } else {
        auto halves = *dist::split(rest, prime);
        axes.push_back(halves.first);
        rest = halves.second;
      }
    }
  }
  for (int f : eligible)
    this->axes[f] = dist::mergeNeighbours(this->axes[f]);
}

Placement Assignment::use(const OpAtoms &op, unsigned operand) const {
  Placement placement;
  for (int f : op.operands[operand])
    placement.atoms.push_back(axes[f]);
  if (op.operands[operand] == flatFactors)
    placement.flat = flat;
  return placement;
}

Placement Assignment::raw(const OpAtoms &op, unsigned result) const {
  Placement placement;
  llvm::SmallBitVector present(op.factors.size()), inOperand(op.factors.size());
  for (int f : op.results[result]) {
    placement.atoms.push_back(axes[f]);
    present.set(f);
  }
  for (auto &operand : op.operands)
    for (int f : operand)
      inOperand.set(f);
  for (auto [f, factor] : llvm::enumerate(op.factors))
    if (inOperand[f] && !present[f] && factor.kind != nn::FactorKind::Cooperative)
      placement.partial.append(axes[f].begin(), axes[f].end());
  if (op.results[result] == flatFactors)
    placement.flat = flat;
  else
    placement.partial.append(flat.begin(), flat.end());
  llvm::sort(placement.partial);
  return placement;
}

int64_t Assignment::ways() const {
  int64_t n = 1;
  for (const AxisList &list : axes)
    n *= dist::product(list);
  return n;
}
