// See Hazards.h.
#include "passes/Memory/Hazards.h"

using namespace mlir;
using namespace tessera;

Hazards::Hazards(Block &block) : block(block) {
  auto add = [&](auto assign) {
    assigns[assign.getVariable()].push_back(assign);
    targets[assign.getValue()] = assign.getVariableAttr();
  };
  for (Operation &op : block)
    if (auto assign = dyn_cast<nn::AssignOp>(op))
      add(assign);
    else if (auto assign = dyn_cast<dist::AssignCopyOp>(op))
      add(assign);
    else if (auto step = dyn_cast<dist::StepOp>(op))
      steps.push_back(step);
}

static Value assigned(Operation *op) {
  auto copied = dyn_cast<dist::AssignCopyOp>(op);
  return copied ? Value(copied.getValue()) : Value(cast<nn::AssignOp>(op).getValue());
}

SmallVector<Operation *> Hazards::writers(StringRef variable) const {
  SmallVector<Operation *> list;
  if (auto it = assigns.find(variable); it != assigns.end())
    for (Operation *assign : it->second)
      for (Operation *writer : {assign, assigned(assign).getDefiningOp()})
        if (writer && writer->getBlock() == &block)
          list.push_back(writer);
  return list;
}

SmallVector<Operation *> Hazards::all() const {
  SmallVector<Operation *> list(steps.begin(), steps.end());
  for (StringRef variable : written())
    llvm::append_range(list, writers(variable));
  llvm::sort(list, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return list;
}

bool Hazards::hasStepBetween(Operation *from, Operation *to) const {
  const auto *next = llvm::partition_point(
      steps, [&](dist::StepOp step) { return !from->isBeforeInBlock(step.getOperation()); });
  return next != steps.end() && dist::StepOp(*next)->isBeforeInBlock(to);
}
