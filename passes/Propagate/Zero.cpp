// See Zero.h.
#include "passes/Propagate/Zero.h"
#include "dialects/dist/Attributes.h"
#include "dialects/nn/Attributes.h"

using namespace mlir;
using namespace tessera;

Zero Zero::of(ModuleOp module) {
  Zero zero;
  if (auto stage = dist::kZero.of(module))
    zero.stage = stage.getInt();
  // Of what nothing changes, only stage 3 has pieces.
  if (zero.stage < 3 && llvm::none_of(module.getOps<func::FuncOp>(), nn::isTraining))
    zero.stage = 0;
  if (auto axes = dist::kZeroAxes.of(module))
    zero.axes = dist::AxisList(axes.getAxes());
  zero.regather = dist::whenOf(dist::kRegather, module);
  return zero;
}

bool Zero::stores(nn::VariableOp variable) const {
  return variable.getRole() == "parameter" && (stage >= 3 || (stage >= 1 && variable.getTrained()));
}

Placement Zero::cut(Placement placement) const {
  dist::AxisList used, left = axes;
  for (const dist::AxisList &list : placement.atoms)
    used.append(list);
  if (!placement.atoms.empty() && dist::refine({&used, &left}))
    placement.flat = dist::mergeNeighbours(dist::without(left, used));
  return placement;
}

bool tessera::runsBackward(Operation *op) { return nn::kGradOf.isOn(op) || dist::kRecomputed.isOn(op); }

void tessera::recomputeFromParameters(func::FuncOp func) {
  // Of what is computed from parameters and constants, that which reads a parameter.
  DenseSet<Value> free, fromParameters;
  SmallVector<Operation *> ops;
  for (Operation &op : func.getBody().front()) {
    bool isRead = isa<nn::ReadOp>(op);
    if (!isRead && !(isa<nn::FactorOpInterface>(op) &&
                     llvm::all_of(op.getOperands(), [&](Value v) { return free.contains(v); })))
      continue;
    free.insert(op.result_begin(), op.result_end());
    if (!isRead && llvm::none_of(op.getOperands(), [&](Value v) { return fromParameters.contains(v); }))
      continue;
    fromParameters.insert(op.result_begin(), op.result_end());
    if (!isRead)
      ops.push_back(&op);
  }
  OpBuilder b(func.getContext());
  for (Operation *op : llvm::reverse(ops)) {
    Operation *first = nullptr;
    for (Operation *user : op->getUsers())
      if (runsBackward(user) && (!first || user->isBeforeInBlock(first)))
        first = user;
    if (!first)
      continue;
    b.setInsertionPoint(first);
    Operation *again = b.clone(*op);
    dist::kRecomputed.mark(again);
    nn::kId.remove(again);
    op->replaceUsesWithIf(again->getResults(), [](OpOperand &use) { return runsBackward(use.getOwner()); });
  }
}
