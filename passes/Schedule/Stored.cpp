// See Stored.h.
#include "passes/Schedule/Stored.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/Memory/Liveness.h"

using namespace mlir;
using namespace tessera;

// Whether the operator makes of one value another of as many elements: a conversion, say.
static bool converts(Operation *op) {
  if (op->getNumOperands() != 1 || op->getNumResults() != 1 || !isMemoryEffectFree(op) ||
      isa<dist::CollectiveOp, nn::ReadOp>(op))
    return false;
  auto from = dyn_cast<RankedTensorType>(op->getOperand(0).getType()),
       to = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  return from && to && from.getNumElements() == to.getNumElements();
}

nn::ReadOp tessera::storedRead(Value value) {
  Operation *def = value.getDefiningOp();
  while (def && (isView(def) || converts(def)))
    def = def->getOperand(0).getDefiningOp();
  return dyn_cast_or_null<nn::ReadOp>(def);
}

bool tessera::becomesVariable(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    return isa<nn::AssignOp>(user) ||
           ((isView(user) || isa<dist::UnpackOp>(user)) && llvm::any_of(user->getResults(), becomesVariable));
  });
}

bool tessera::gathersStored(dist::CollectiveOp op, const Hazards &hazards) {
  if (op.getKind() != dist::CollectiveKind::AllGather)
    return false;
  auto isStored = [&](Value value) {
    nn::ReadOp read = storedRead(value);
    if (!read)
      return false;
    return llvm::none_of(hazards.writers(read.getVariable()),
                         [&](Operation *writer) { return writer->isBeforeInBlock(op); });
  };
  auto pack = op.getSource().getDefiningOp<dist::PackOp>();
  return pack ? llvm::all_of(pack.getSources(), isStored) : isStored(op.getSource());
}

void tessera::hoist(Value value, Operation *first) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != first->getBlock() || op->isBeforeInBlock(first))
    return;
  for (Value operand : op->getOperands())
    hoist(operand, first);
  moveWithinBlock(op, first);
}

void tessera::moveWithinBlock(Operation *op, Operation *before) {
  if (op == before)
    return;
  Block *block = before->getBlock();
  op->remove();
  block->getOperations().insert(Block::iterator(before), op);
}
