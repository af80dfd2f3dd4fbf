#include "passes/Assign/Pattern.h"

using namespace mlir;
using namespace tessera;

static SmallVector<const tessera::Pattern *> &registry() {
  static SmallVector<const tessera::Pattern *> patterns;
  return patterns;
}

void tessera::registerPattern(const tessera::Pattern *pattern) {
  registry().push_back(pattern);
  llvm::sort(registry(), [](const tessera::Pattern *a, const tessera::Pattern *b) { return a->name() < b->name(); });
}

ArrayRef<const tessera::Pattern *> tessera::allPatterns() { return registry(); }

const tessera::Pattern *tessera::findPattern(StringRef name) {
  for (const tessera::Pattern *pattern : registry())
    if (pattern->name() == name)
      return pattern;
  return nullptr;
}

Operation *tessera::readOf(Value value) {
  Operation *op = value.getDefiningOp();
  while (op && !isa<nn::ReadOp>(op)) {
    // One tensor operand and all its elements kept: what moves a parameter about without computing.
    auto factorOp = dyn_cast<nn::FactorOpInterface>(op);
    if (!factorOp || op->getNumOperands() != 1 || op->getNumResults() != 1)
      return nullptr;
    auto in = dyn_cast<RankedTensorType>(op->getOperand(0).getType()), out = cast<RankedTensorType>(op->getResult(0).getType());
    if (!in || in.getNumElements() != out.getNumElements())
      return nullptr;
    op = op->getOperand(0).getDefiningOp();
  }
  return op;
}

int tessera::parameterOperand(Operation *op) {
  int found = -1;
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    if (readOf(operand)) {
      if (found >= 0)
        return -1;
      found = i;
    }
  return found;
}
