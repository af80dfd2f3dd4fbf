#include "passes/Partition/MicroLoop.h"
#include "dialects/dist/Reshard.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace tessera;

Value tessera::markAccumulation(OpBuilder &b, Location loc, Value value) {
  return UnrealizedConversionCastOp::create(b, loc, value.getType(), value).getResult(0);
}

// Whether the operator itself depends on which microbatch runs, or is not to be kept for all of them.
static bool readsMicro(Operation *op) {
  if (op->hasAttr(dist::kGatherAttr))
    return true;
  return llvm::any_of(op->getAttrs(), [](NamedAttribute attr) {
    auto axes = dyn_cast<dist::AxesAttr>(attr.getValue());
    return axes && llvm::any_of(axes.getAxes(), [](const dist::AxisRef &a) { return a.name == dist::kMicroAxis; });
  });
}

LogicalResult tessera::formMicroLoop(Block &block, int64_t times, ArrayRef<Operation *> marks) {
  enum Stage { Before, Body, After };
  DenseMap<Value, Stage> stages;
  DenseMap<Operation *, Stage> of;
  for (Operation &op : block) {
    Stage stage = readsMicro(&op) ? Body : Before;
    for (Value operand : op.getOperands())
      stage = std::max(stage, stages.lookup(operand));
    if (stage == After)
      for (Value operand : op.getOperands())
        if (stages.lookup(operand) == Body)
          return op.emitOpError("uses a value of one microbatch beside a sum over all of them, which is known after the last; train without microbatches, or by a "
                                "loss that is a sum over rows of the batch or the mean cross entropy of labels");
    bool isMark = llvm::is_contained(marks, &op);
    of[&op] = stage;
    for (Value result : op.getResults())
      stages[result] = isMark ? After : stage;
  }
  if (of[block.getTerminator()] == Body)
    return block.getTerminator()->emitOpError("returns a value of one microbatch");

  // The loop stands before the terminator; what uses a sum moves behind it.
  OpBuilder b(block.getParentOp()->getContext());
  b.setInsertionPoint(block.getTerminator());
  Location loc = marks.front()->getLoc();
  SmallVector<Value> zeros;
  for (Operation *mark : marks) {
    auto type = cast<RankedTensorType>(mark->getResult(0).getType());
    zeros.push_back(nn::ConstantOp::create(b, mark->getLoc(), type, cast<ElementsAttr>(b.getZeroAttr(type))));
  }
  auto loop = dist::LoopOp::create(b, loc, times, zeros);
  Block *body = loop.getBody();
  if (!body->empty() && body->back().hasTrait<OpTrait::IsTerminator>())
    body->back().erase();
  SmallVector<Operation *> ops;
  for (Operation &op : block)
    if (of.contains(&op) && &op != block.getTerminator())
      ops.push_back(&op);
  for (Operation *op : ops) {
    if (of[op] == Body && !llvm::is_contained(marks, op))
      op->moveBefore(body, body->end());
    else if (of[op] == After)
      op->moveBefore(block.getTerminator());
  }
  b.setInsertionPointToEnd(body);
  SmallVector<Value> next;
  for (auto [i, mark] : llvm::enumerate(marks)) {
    Value term = mark->getOperand(0);
    next.push_back(nn::AddOp::create(b, mark->getLoc(), term.getType(), loop.getCarried()[i], term));
  }
  dist::YieldOp::create(b, loc, next);
  for (auto [i, mark] : llvm::enumerate(marks)) {
    mark->getResult(0).replaceAllUsesWith(loop.getResult(i));
    mark->erase();
  }
  return success();
}
