// From the global program to the one that every rank runs.
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Machine.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Assign/Pattern.h"
#include "passes/Partition/LocalOp.h"
#include "passes/Partition/MicroLoop.h"
#include "passes/Partition/Passes.h"
#include "passes/Partition/SplitStages.h"

namespace tessera {
#define GEN_PASS_DEF_PARTITION
#include "passes/Partition/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;
using dist::Layout;

namespace {

struct PartitionPass : tessera::impl::PartitionBase<PartitionPass> {
  LogicalResult partition(func::FuncOp func, int64_t turns);
  LogicalResult expand(OpBuilder &b, nn::FactorOpInterface op, LocalOp &local, ValueRange operands,
                       SmallVectorImpl<Value> &results);
  FailureOr<Value> reshard(OpBuilder &b, dist::ReshardOp op, Value local);

  std::optional<dist::ReshardPlanner> planner;
  std::optional<dist::Pipeline> pipeline;

  PartitionPass() = default;
  PartitionPass(const PartitionPass &other)
      : PartitionBase(other) {} // what the planner remembers is not copied
  void runOnOperation() override {
    ModuleOp module = getOperation();
    int64_t turns = dist::microbatchTurns(module);
    planner.emplace(dist::Machine::of(module).links);
    pipeline = dist::Pipeline::of(module);
    for (auto func : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
      if (failed(partition(func, turns)) || (pipeline && failed(splitStages(func, *pipeline))))
        return signalPassFailure();
  }
};

// The rows of one microbatch in their place among those of all, where the others are zero: the sum over
// microbatches is the value of all. So it is with the gradient of a parameter that has a row for each row of
// the batch.
static Value amongAll(OpBuilder &b, Location loc, Value local, const dist::Atom &atom) {
  auto type = cast<RankedTensorType>(local.getType());
  SmallVector<int64_t> rows(type.getShape()), all(type.getShape());
  rows[0] /= atom.local();
  rows.insert(rows.begin(), atom.local());
  SmallVector<int64_t> places = rows;
  places[0] = atom.padded;
  all[0] = places[0] * places[1];
  Value ids =
      dist::LogicalIndexOp::create(b, loc, RankedTensorType::get({atom.local()}, b.getI64Type()),
                                   dist::AxesAttr::get(b.getContext(), atom.axes), atom.size, atom.padded);
  Value row = nn::ReshapeOp::create(b, loc, type.clone(rows), local);
  Value placed = nn::ScatterAddOp::create(b, loc, type.clone(places), ids, row, /*start=*/Value());
  return nn::ReshapeOp::create(b, loc, type.clone(all), placed);
}

// Where a step is of the first part of the batch alone, the rest stands for copies of it, which need not be
// computed.
static Value times(OpBuilder &b, Value sum, int64_t copies) {
  if (copies == 1)
    return sum;
  Type element = cast<RankedTensorType>(sum.getType()).getElementType();
  auto scalar = RankedTensorType::get({}, element);
  TypedAttr number = isa<FloatType>(element) ? TypedAttr(b.getFloatAttr(element, double(copies)))
                                             : TypedAttr(b.getIntegerAttr(element, copies));
  Value factor =
      nn::ConstantOp::create(b, sum.getLoc(), scalar, DenseElementsAttr::get(scalar, Attribute(number)));
  return nn::MulOp::create(b, sum.getLoc(), sum.getType(), sum, factor);
}

FailureOr<Value> PartitionPass::reshard(OpBuilder &b, dist::ReshardOp op, Value local) {
  Layout from = dist::getLayout(op.getSource().getType()), to = dist::getLayout(op.getResult().getType());
  int64_t collectives = 0;
  auto isMicro = [](const dist::AxisRef &axis) { return axis.name == dist::kMicroAxis; };
  auto isCut = [&](const Layout &layout) { return llvm::any_of(layout.splittingAxes(), isMicro); };
  dist::AxisList micro = {dist::AxisRef{dist::kMicroAxis.str(), 1, dist::microbatches(getOperation())}};
  bool gathers =
      isCut(from) && !isCut(to) && !from.dims.front().empty() && from.dims.front().front().axes == micro;
  if (gathers) {
    local = amongAll(b, op.getLoc(), local, from.dims.front().front());
    from.dims.front().front().axes.clear();
  }
  std::optional<rt::Shards> shards = dist::shardsOf(getOperation());
  if (gathers || (llvm::any_of(from.partial, isMicro) && llvm::none_of(to.partial, isMicro))) {
    llvm::erase_if(from.partial, isMicro);
    local = dist::AccumulateOp::create(b, op.getLoc(), local.getType(), local);
    local = times(b, local, shards ? shards->copies() : 1);
  }
  Operation *last = b.getInsertionBlock()->empty() ? nullptr : &b.getInsertionBlock()->back();
  FailureOr<Value> result = emitReshard(b, op.getLoc(), *planner, local, from, to, collectives);
  if (dist::GatherForAttr gather = dist::kGather.of(op))
    for (Operation *made = last ? last->getNextNode() : &b.getInsertionBlock()->front(); made;
         made = made->getNextNode())
      dist::kGather.set(made, gather);
  numCollectives += collectives;
  return result;
}

LogicalResult PartitionPass::expand(OpBuilder &b, nn::FactorOpInterface op, LocalOp &local,
                                    ValueRange operands, SmallVectorImpl<Value> &results) {
  auto attr = dist::kExpand.of(op);
  if (!attr)
    return op.expandLocal(local, operands, results);
  auto meshes = getOperation().getOps<dist::MeshOp>();
  if (meshes.empty())
    return op.emitOpError("is expanded by a pattern in a program without a dist.mesh");
  FailureOr<PatternUse> use = resolvePattern(op, attr, (*meshes.begin()).getMesh().getMesh());
  if (failed(use))
    return failure();
  return use->pattern->expand(local, op, use->axes, operands, results);
}

LogicalResult PartitionPass::partition(func::FuncOp func, int64_t turns) {
  Block &old = func.getBody().front();
  auto *block = new Block();
  IRMapping map;
  OpBuilder b(func.getContext());
  SmallVector<Type> inputs, outputs;
  for (BlockArgument arg : old.getArguments()) {
    auto type = cast<RankedTensorType>(arg.getType());
    dist::kLayout.setArgument(func, arg.getArgNumber(),
                              dist::LayoutAttr::get(func.getContext(), dist::getLayout(type)));
    dist::kShape.setArgument(func, arg.getArgNumber(), b.getDenseI64ArrayAttr(type.getShape()));
    dist::kSplit.removeArgument(func, arg.getArgNumber());
    inputs.push_back(dist::localType(type));
    map.map(arg, block->addArgument(inputs.back(), arg.getLoc()));
  }
  b.setInsertionPointToEnd(block);
  int64_t masks = 0;
  for (Operation &op : old) {
    // Whatever an operator becomes is part of what it is part of.
    Operation *before = block->empty() ? nullptr : &block->back();
    auto inherit = [&] {
      for (Operation *made = before           ? before->getNextNode()
                             : block->empty() ? nullptr
                                              : &block->front();
           made; made = made->getNextNode())
        dist::copyPipelinePart(&op, made);
    };
    if (auto reshardOp = dyn_cast<dist::ReshardOp>(op)) {
      FailureOr<Value> local = reshard(b, reshardOp, map.lookup(reshardOp.getSource()));
      if (failed(local))
        return delete block, failure();
      map.map(reshardOp.getResult(), *local);
      inherit();
      continue;
    }
    auto factorOp = dyn_cast<nn::FactorOpInterface>(op);
    if (!factorOp) {
      // Reads, assignments and the return only change types.
      Operation *clone = b.clone(op, map);
      for (Value result : clone->getResults())
        result.setType(dist::localType(cast<RankedTensorType>(result.getType())));
      inherit();
      continue;
    }
    LocalOp local(b, factorOp);
    SmallVector<Value> operands, results;
    for (unsigned i = 0; i < op.getNumOperands(); ++i)
      operands.push_back(local.paddedAtEnds(i, local.masked(i, map.lookup(op.getOperand(i)), masks)));
    if (failed(expand(b, factorOp, local, operands, results)) || failed(local.status()))
      return delete block, failure();
    for (auto [r, result] : llvm::enumerate(results))
      result = local.paddedInside(r, result);
    map.map(op.getResults(), results);
    b.setInsertionPointToEnd(block);
    inherit();
  }
  numMasks += masks;
  Operation *terminator = old.getTerminator();
  for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
    auto type = cast<RankedTensorType>(value.getType());
    dist::kLayout.setResult(func, i, dist::LayoutAttr::get(func.getContext(), dist::getLayout(type)));
    dist::kShape.setResult(func, i, b.getDenseI64ArrayAttr(type.getShape()));
    outputs.push_back(dist::localType(type));
  }
  old.dropAllReferences();
  old.erase();
  func.getBody().push_back(block);
  func.setType(FunctionType::get(func.getContext(), inputs, outputs));
  if (block->getOps<dist::AccumulateOp>().empty())
    return success();
  std::optional<rt::Shards> shards = dist::shardsOf(getOperation());
  return pipeline
             ? checkMicroSums(*block)
             : formMicroLoop(*block, turns, shards ? shards->microbatchLevels() : std::vector<int64_t>());
}

} // namespace
