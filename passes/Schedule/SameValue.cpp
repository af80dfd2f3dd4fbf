// See SameValue.h.
#include "passes/Schedule/SameValue.h"
#include "dialects/dist/Attributes.h"
#include "dialects/nn/Attributes.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/Memory/Liveness.h"

using namespace mlir;
using namespace tessera;

DictionaryAttr tessera::computing(Operation *op) {
  NamedAttrList list(op->getAttrDictionary());
  for (StringRef name :
       {dist::kRecompute.name, dist::kRepeated.name, dist::kGather.name, nn::kId.name, nn::kGradOf.name})
    list.erase(name);
  return list.getDictionary(op->getContext());
}

// Makes of the same operands the same value, wherever it stands.
static bool isFunction(Operation *op) {
  return isView(op) || isMemoryEffectFree(op) || isa<dist::CollectiveStartOp, dist::CollectiveWaitOp>(op);
}

// The variable of which a value was read on the device or below it.
static StringRef variableOf(Value value) {
  if (auto read = value.getDefiningOp<nn::ReadOp>())
    return read.getVariable();
  if (auto read = value.getDefiningOp<dist::ReadCopyOp>())
    return read.getVariable();
  return {};
}

bool tessera::isSameValue(Value a, Value b, Original original) {
  a = original(a);
  b = original(b);
  if (a == b || (!variableOf(a).empty() && variableOf(a) == variableOf(b)))
    return true;
  Operation *first = a.getDefiningOp(), *second = b.getDefiningOp();
  // One operand: what is kept must not be compared by all that it is made of.
  return first && second && first->getNumOperands() == 1 && second->getNumOperands() == 1 &&
         first->getNumResults() == 1 && first->getName() == second->getName() && isFunction(first) &&
         a.getType() == b.getType() && computing(first) == computing(second) &&
         isSameValue(first->getOperand(0), second->getOperand(0), original);
}

StringRef tessera::variableBehind(Value value) {
  while (variableOf(value).empty()) {
    Operation *def = value.getDefiningOp();
    if (!def || def->getNumOperands() != 1 || !isFunction(def))
      return {};
    value = def->getOperand(0);
  }
  return variableOf(value);
}
