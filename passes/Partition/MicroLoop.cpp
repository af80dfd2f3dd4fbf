#include "passes/Partition/MicroLoop.h"
#include "dialects/dist/Reshard.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace tessera;

// Whether the operator itself depends on which microbatch runs, or is not to be kept for all of them.
static bool readsMicro(Operation *op) {
  if (op->hasAttr(dist::kGatherAttr))
    return true;
  return llvm::any_of(op->getAttrs(), [](NamedAttribute attr) {
    auto axes = dyn_cast<dist::AxesAttr>(attr.getValue());
    return axes && llvm::any_of(axes.getAxes(), [](const dist::AxisRef &a) { return a.name == dist::kMicroAxis; });
  });
}

namespace {
/// When an operator runs: before the first microbatch, in each, after the last.
enum Stage { Before, Body, After };
using Stages = DenseMap<Operation *, Stage>;
} // namespace

static FailureOr<Stages> stagesOf(Block &block) {
  DenseMap<Value, Stage> stages;
  Stages of;
  for (Operation &op : block) {
    Stage stage = readsMicro(&op) ? Body : Before;
    for (Value operand : op.getOperands())
      stage = std::max(stage, stages.lookup(operand));
    if (stage == After)
      for (Value operand : op.getOperands())
        if (stages.lookup(operand) == Body)
          return op.emitOpError("uses a value of one microbatch beside a sum over all of them, which is known after the last; train without microbatches, or by a "
                                "loss that is a sum over rows of the batch or the mean cross entropy of labels");
    of[&op] = stage;
    for (Value result : op.getResults())
      stages[result] = isa<dist::AccumulateOp>(op) ? After : stage;
  }
  if (of[block.getTerminator()] == Body)
    return block.getTerminator()->emitOpError("returns a value of one microbatch");
  return of;
}

LogicalResult tessera::checkMicroSums(Block &block) { return stagesOf(block); }

LogicalResult tessera::formMicroLoop(Block &block, int64_t times) {
  FailureOr<Stages> stages = stagesOf(block);
  if (failed(stages))
    return failure();
  Stages &of = *stages;
  auto sums = llvm::to_vector(block.getOps<dist::AccumulateOp>());

  // The loop stands before the terminator; what uses a sum moves behind it.
  OpBuilder b(block.getParentOp()->getContext());
  b.setInsertionPoint(block.getTerminator());
  Location loc = sums.front().getLoc();
  SmallVector<Value> zeros;
  for (dist::AccumulateOp sum : sums) {
    auto type = cast<RankedTensorType>(sum.getType());
    zeros.push_back(nn::ConstantOp::create(b, sum.getLoc(), type, cast<ElementsAttr>(b.getZeroAttr(type))));
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
    if (of[op] == Body && !isa<dist::AccumulateOp>(op))
      op->moveBefore(body, body->end());
    else if (of[op] == After)
      op->moveBefore(block.getTerminator());
  }
  b.setInsertionPointToEnd(body);
  SmallVector<Value> next;
  for (auto [i, sum] : llvm::enumerate(sums))
    next.push_back(nn::AddOp::create(b, sum.getLoc(), sum.getType(), loop.getCarried()[i], sum.getTerm()));
  dist::YieldOp::create(b, loc, next);
  for (auto [i, sum] : llvm::enumerate(sums)) {
    sum.replaceAllUsesWith(loop.getResult(i));
    sum.erase();
  }
  return success();
}
