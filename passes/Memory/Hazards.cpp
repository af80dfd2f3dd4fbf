// See Hazards.h.
#include "passes/Memory/Hazards.h"

using namespace mlir;
using namespace tessera;

Hazards::Hazards(Block &block) : block(block) {
  for (Operation &op : block)
    if (auto assign = dyn_cast<nn::AssignOp>(op)) {
      assigns[assign.getVariable()].push_back(assign);
      targets[assign.getValue()] = assign.getVariableAttr();
    } else if (auto step = dyn_cast<dist::StepOp>(op)) {
      steps.push_back(step);
    }
}

SmallVector<Operation *> Hazards::writers(StringRef variable) const {
  SmallVector<Operation *> list;
  if (auto it = assigns.find(variable); it != assigns.end())
    for (nn::AssignOp assign : it->second)
      for (Operation *writer : {assign.getOperation(), assign.getValue().getDefiningOp()})
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
