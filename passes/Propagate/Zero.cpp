// See Zero.h.
#include "passes/Propagate/Zero.h"
#include "dialects/dist/Dist.h"
#include "dialects/nn/NN.h"

using namespace mlir;
using namespace tessera;

static constexpr llvm::StringLiteral kRecomputed = "dist.recomputed";

Zero Zero::of(ModuleOp module) {
  Zero zero;
  if (auto stage = module->getAttrOfType<IntegerAttr>("dist.zero"))
    zero.stage = stage.getInt();
  if (auto axes = module->getAttrOfType<dist::AxesAttr>("dist.zero_axes"))
    zero.axes = dist::AxisList(axes.getAxes());
  if (auto regather = module->getAttrOfType<StringAttr>("dist.regather")) {
    zero.regather = regather.getValue() != "never";
    zero.regatherAlways = regather.getValue() == "always";
  }
  return zero;
}

Placement Zero::cut(Placement placement) const {
  dist::AxisList used, left = axes;
  for (const dist::AxisList &list : placement.atoms)
    used.append(list);
  if (!placement.atoms.empty() && dist::refine({&used, &left}))
    placement.flat = dist::mergeNeighbours(dist::without(left, used));
  return placement;
}

bool tessera::runsBackward(Operation *op) { return op->hasAttr("nn.grad_of") || op->hasAttr(kRecomputed); }

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
    again->setAttr(kRecomputed, b.getUnitAttr());
    again->removeAttr("nn.id");
    op->replaceUsesWithIf(again->getResults(), [](OpOperand &use) { return runsBackward(use.getOwner()); });
  }
}
