// See Liveness.h.
#include "passes/Memory/Liveness.h"
#include "dialects/dist/Dist.h"
#include "dialects/nn/NN.h"

using namespace mlir;
using namespace tessera;

bool tessera::isView(Operation *op) {
  if (isa<dist::UnflattenOp>(op))
    return true;
  if (auto flatten = dyn_cast<dist::FlattenOp>(op))
    return flatten.getSource().getType().getNumElements() == flatten.getType().getNumElements();
  if (op->getNumOperands() != 1 || op->getNumResults() != 1) // rules of others are long
    return false;
  auto factorOp = dyn_cast<nn::FactorOpInterface>(op);
  return factorOp && factorOp.getFactorRule().isReshape;
}

bool tessera::isFilled(Operation *op) {
  auto constant = dyn_cast<nn::ConstantOp>(op);
  auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : nullptr;
  return splat && isa<FloatType>(splat.getElementType()) && !op->use_empty() &&
         llvm::none_of(op->getUsers(), [](Operation *user) { return isa<dist::LoopOp>(user); });
}

bool tessera::addsToFilled(Operation *op) {
  return op && llvm::any_of(op->getOperands(), [](Value operand) {
           return operand.getDefiningOp() && isFilled(operand.getDefiningOp());
         });
}

Liveness::Liveness(func::FuncOp func) {
  number(func.getBody().front());
  func.walk([&](Operation *op) {
    for (Value operand : op->getOperands()) {
      Operation *user = op;
      while (user->getBlock() != operand.getParentBlock())
        user = user->getParentOp();
      int64_t p = user == op ? start(op) : end(user);
      if (op->getNumResults() == 1 &&
          isa<dist::TokenType, dist::TransferType, dist::HostCallType>(op->getResult(0).getType()))
        for (Operation *wait : op->getResult(0).getUsers())
          p = std::max(p, start(wait));
      uses[operand] = std::max(uses.lookup(operand), p);
    }
  });
}

void Liveness::number(Block &block) {
  for (Operation &op : block) {
    starts[&op] = at++;
    for (Region &region : op.getRegions())
      for (Block &inner : region)
        number(inner);
    ends[&op] = at++;
  }
}

int64_t Liveness::lastUse(Value value) const {
  int64_t p = uses.lookup(value);
  for (Operation *user : value.getUsers())
    if (isView(user))
      p = std::max(p, lastUse(user->getResult(0)));
  return p;
}
