#include "passes/Partition/MicroLoop.h"
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Reshard.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace tessera;

// Whether the operator itself depends on which microbatch runs.
static bool readsMicro(Operation *op) {
  return llvm::any_of(op->getAttrs(), [](NamedAttribute attr) {
    auto axes = dyn_cast<dist::AxesAttr>(attr.getValue());
    return axes &&
           llvm::any_of(axes.getAxes(), [](const dist::AxisRef &a) { return a.name == dist::kMicroAxis; });
  });
}

namespace {
/// When an operator runs: before the first microbatch, in each, after the last.
enum Stage { Before, Body, After };
using Stages = DenseMap<Operation *, Stage>;
} // namespace

static FailureOr<Stages> stagesOf(Block &block) {
  DenseMap<Value, Stage> stages;
  DenseSet<Value> varies; // with the microbatch
  Stages of;
  for (Operation &op : block) {
    // What is gathered is not kept for all microbatches.
    bool reads =
        readsMicro(&op) || llvm::any_of(op.getOperands(), [&](Value v) { return varies.contains(v); });
    Stage stage = readsMicro(&op) || dist::kGather.isOn(&op) ? Body : Before;
    for (Value operand : op.getOperands())
      stage = std::max(stage, stages.lookup(operand));
    if (reads && !isa<dist::AccumulateOp>(op))
      varies.insert(op.result_begin(), op.result_end());
    if (stage == After)
      for (Value operand : op.getOperands())
        if (varies.contains(operand))
          return op.emitOpError(
              "uses a value of one microbatch beside a sum over all of them, which is known after the last; "
              "train without microbatches, or by a "
              "loss that is a sum over rows of the batch or the mean cross entropy of labels");
    of[&op] = stage;
    for (Value result : op.getResults())
      stages[result] = isa<dist::AccumulateOp>(op) ? After : stage;
  }
  if (of[block.getTerminator()] == Body)
    return block.getTerminator()->emitOpError(
        "returns a value of one microbatch; only sums over all of them outlive their loop");
  return of;
}

LogicalResult tessera::checkMicroSums(Block &block) { return stagesOf(block); }

// A value that is the same in each microbatch, but is not kept from one to the next, once more for what
// follows the last.
static Value again(OpBuilder &b, Value value, const Stages &of, IRMapping &map) {
  Operation *op = value.getDefiningOp();
  if (!op || of.lookup(op) != Body || isa<dist::AccumulateOp>(op))
    return value;
  if (!map.contains(value)) {
    for (Value operand : op->getOperands())
      map.map(operand, again(b, operand, of, map));
    b.clone(*op, map);
  }
  return map.lookup(value);
}

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
  IRMapping repeated;
  b.setInsertionPoint(block.getTerminator());
  for (Operation *op : ops) {
    if (of[op] == Body && !isa<dist::AccumulateOp>(op)) {
      op->moveBefore(body, body->end());
    } else if (of[op] == After) {
      for (OpOperand &operand : op->getOpOperands())
        operand.set(again(b, operand.get(), of, repeated));
      op->moveBefore(block.getTerminator());
    }
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
