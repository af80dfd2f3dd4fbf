#include "passes/Propagate/Lazy.h"

using namespace mlir;
using namespace tessera;
using dist::AxisList;

static AxisList sorted(AxisList axes) {
  llvm::sort(axes);
  return dist::mergeNeighbours(axes);
}

AxisList tessera::inheritedPartial(Operation *op, unsigned operand, const Placement &at, const Decision &d) {
  auto factorOp = dyn_cast<nn::FactorOpInterface>(op);
  if (at.partial.empty() || !factorOp || !factorOp.isLinearIn(operand))
    return {};
  // A reshape is the identity, barrier or not; other operators must take the operand where it is.
  bool regroups = factorOp.getFactorRule().isReshape;
  if (!regroups && d.use(operand).atoms != at.atoms)
    return {};
  for (const AxisList &axes : d.axes.axes)
    for (const dist::AxisRef &axis : axes)
      if (dist::overlapsAny(axis, at.partial))
        return {};
  return at.partial;
}

AxisList tessera::inheritedPartial(Operation *op, const Decision &d, const Outlook &outlook) {
  std::optional<unsigned> partial;
  for (OpOperand &operand : op->getOpOperands())
    if (isa<RankedTensorType>(operand.get().getType()) && !outlook.home(operand.get(), op).partial.empty()) {
      if (partial)
        return {};
      partial = operand.getOperandNumber();
    }
  return partial ? inheritedPartial(op, *partial, outlook.home(op->getOperand(*partial), op), d) : AxisList();
}

namespace {

/// Follows a partial cotangent to where it meets others.
class Walk {
public:
  explicit Walk(const Outlook &outlook) : outlook(outlook) {}
  /// False when some use would have to reduce it.
  bool follow(nn::AccOp acc, const Placement &at);
  bool met = false;

private:
  bool arrive(nn::AccOp acc, Value term, const Placement &at);
  bool meets(nn::AccOp acc, Value term, const Placement &at);
  const Outlook &outlook;
};

bool Walk::follow(nn::AccOp acc, const Placement &at) {
  for (OpOperand &use : acc.getResult().getUses()) {
    Operation *op = use.getOwner();
    if (!isa<nn::FactorOpInterface>(op) || isa<nn::AccOp>(op))
      return false;
    std::optional<Decision> d = outlook.decision(op, use.getOperandNumber(), at);
    if (!d || inheritedPartial(op, use.getOperandNumber(), at, *d).empty() || op->getNumResults() != 1)
      return false;
    Placement raw = d->raw(0);
    raw.partial.append(at.partial.begin(), at.partial.end());
    for (Operation *user : op->getResult(0).getUsers())
      if (auto next = dyn_cast<nn::AccOp>(user); !next || !arrive(next, op->getResult(0), raw))
        return false;
  }
  return true;
}

bool Walk::arrive(nn::AccOp acc, Value term, const Placement &at) {
  if (outlook.isDeferred(acc))
    return true;
  if (acc.getTerms().size() == 1)
    return follow(acc, at);
  bool here = meets(acc, term, at);
  met |= here;
  return here;
}

bool Walk::meets(nn::AccOp acc, Value term, const Placement &at) {
  return llvm::any_of(acc.getTerms(), [&](Value other) {
    Operation *op = other.getDefiningOp();
    if (other == term || !op || !isa<nn::FactorOpInterface>(op) || isa<nn::AccOp>(op))
      return false;
    std::optional<Decision> d = outlook.decision(op, 0, {});
    if (!d)
      return false;
    Placement raw = d->raw(cast<OpResult>(other).getResultNumber());
    return raw.atoms == at.atoms && sorted(raw.partial) == sorted(at.partial);
  });
}

} // namespace

bool tessera::staysPartial(nn::AccOp acc, const Placement &at, const Outlook &outlook) {
  Walk walk(outlook);
  return walk.follow(acc, at) && walk.met;
}
