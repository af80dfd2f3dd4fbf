#include "passes/Partition/MicroLoop.h"
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pipeline.h"
#include "dialects/dist/Reshard.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace tessera;

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
        dist::readsMicro(&op) || llvm::any_of(op.getOperands(), [&](Value v) { return varies.contains(v); });
    Stage stage = dist::readsMicro(&op) || dist::kGather.isOn(&op) ? Body : Before;
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

namespace {
/// The sums of a loop: of each, the values that are carried for it, from the tree's root down.
class Sums {
public:
  Sums(SmallVector<dist::AccumulateOp> terms, int64_t times, const std::vector<int64_t> &levels)
      : terms(std::move(terms)), times(times), levels(levels) {}

  /// What each begins with.
  SmallVector<Value> zeros(OpBuilder &b) {
    SmallVector<Value> values;
    for (dist::AccumulateOp sum : terms)
      values.append(numCarried(), zero(b, sum.getLoc(), sum.getType()));
    return values;
  }
  /// Whether the subtree of each level below the root ends with a microbatch, as flags by its number.
  void emitFlags(OpBuilder &b, Location loc);
  /// At the end of the body: what the next microbatch begins with.
  SmallVector<Value> add(OpBuilder &b, dist::LoopOp loop);
  void replace(dist::LoopOp loop) {
    for (auto [i, sum] : llvm::enumerate(terms)) {
      sum.replaceAllUsesWith(loop.getResult(i * numCarried()));
      sum.erase();
    }
  }

private:
  size_t numCarried() const { return std::max<size_t>(1, levels.size()); }
  static Value zero(OpBuilder &b, Location loc, Type type) {
    return nn::ConstantOp::create(b, loc, type,
                                  cast<ElementsAttr>(b.getZeroAttr(cast<RankedTensorType>(type))));
  }

  SmallVector<dist::AccumulateOp> terms;
  const int64_t times;
  const std::vector<int64_t> &levels;
  SmallVector<Value> flags;
};
} // namespace

void Sums::emitFlags(OpBuilder &b, Location loc) {
  std::vector<int64_t> order = rt::microbatchOrder(levels);
  int64_t period = times;
  auto type = RankedTensorType::get({times}, b.getI1Type());
  for (size_t level = 1; level < levels.size(); ++level) {
    period /= levels[level - 1];
    SmallVector<bool> ends(times);
    for (int64_t turn = 0; turn < times; ++turn)
      ends[order[turn]] = (turn + 1) % period == 0;
    flags.push_back(
        nn::ConstantOp::create(b, loc, type, cast<ElementsAttr>(DenseElementsAttr::get(type, ends))));
  }
}

SmallVector<Value> Sums::add(OpBuilder &b, dist::LoopOp loop) {
  SmallVector<Value> next, ends;
  for (Value all : flags) {
    Value one = dist::SliceOp::create(
        b, loop.getLoc(), RankedTensorType::get({1}, b.getI1Type()), all,
        dist::AxesAttr::get(b.getContext(), {dist::AxisRef{dist::kMicroAxis.str(), 1, times}}),
        b.getDenseI64ArrayAttr({times}), int64_t(0), DenseI64ArrayAttr());
    ends.push_back(nn::ReshapeOp::create(b, loop.getLoc(), RankedTensorType::get({}, b.getI1Type()), one));
  }
  for (auto [i, sum] : llvm::enumerate(terms)) {
    Type type = sum.getType();
    size_t root = i * numCarried();
    SmallVector<Value> carried(numCarried());
    Value term = sum.getTerm();
    // From the leaves up: a subtree that has ended is a term of the one above.
    for (size_t level = numCarried(); level-- > 0;) {
      Value total = nn::AddOp::create(b, sum.getLoc(), type, loop.getCarried()[root + level], term);
      carried[level] = total;
      if (level == 0)
        break;
      Value nothing =
          zero(b, sum.getLoc(), RankedTensorType::get({}, cast<RankedTensorType>(type).getElementType()));
      carried[level] = nn::SelectOp::create(b, sum.getLoc(), ends[level - 1], nothing, total);
      term = nn::SelectOp::create(b, sum.getLoc(), ends[level - 1], total, nothing);
    }
    next.append(carried);
  }
  return next;
}

LogicalResult tessera::formMicroLoop(Block &block, int64_t times, const std::vector<int64_t> &levels) {
  FailureOr<Stages> stages = stagesOf(block);
  if (failed(stages))
    return failure();
  Stages &of = *stages;
  auto accumulates = llvm::to_vector(block.getOps<dist::AccumulateOp>());

  // The loop stands before the terminator; what uses a sum moves behind it.
  OpBuilder b(block.getParentOp()->getContext());
  b.setInsertionPoint(block.getTerminator());
  Location loc = accumulates.front().getLoc();
  Sums sums(accumulates, times, levels);
  sums.emitFlags(b, loc);
  SmallVector<Value> zeros = sums.zeros(b);
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
  dist::YieldOp::create(b, loc, sums.add(b, loop));
  sums.replace(loop);
  return success();
}
