#include "passes/Partition/SplitStages.h"
#include "dialects/dist/Attributes.h"
#include "dialects/nn/NN.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include <set>

using namespace mlir;
using namespace tessera;
using dist::PipelinePart;
using dist::PipelineWork;

namespace {

class Splitter {
public:
  Splitter(func::FuncOp func, const dist::Pipeline &pipeline)
      : func(func), pipeline(pipeline), block(func.getBody().front()), b(func.getContext()) {}
  LogicalResult run();

private:
  /// The stage that makes a value; none when every stage that needs it does.
  std::optional<int64_t> stageOf(Value value) const {
    Operation *op = value.getDefiningOp();
    auto part = op ? PipelinePart::of(op) : std::nullopt;
    return part ? std::optional(pipeline.stages[part->chunk]) : std::nullopt;
  }
  void markUpdates();
  void findCrossings();
  LogicalResult emit(int64_t stage);
  Operation *firstUser(Value value, int64_t stage) const;
  void receive(Operation &op, int64_t stage);
  FailureOr<Value> onStage(Value value, int64_t stage, Operation *user);
  LogicalResult clone(Operation *op, int64_t stage, Operation *user);
  LogicalResult sumOverStages(nn::AccOp acc, int64_t number, int64_t stage);
  LogicalResult returnFrom(Operation *op, int64_t stage);

  func::FuncOp func;
  const dist::Pipeline &pipeline;
  Block &block;
  OpBuilder b;
  IRMapping map;                                       // of the stage being emitted
  llvm::MapVector<Value, std::set<int64_t>> crossings; // value -> other stages that use it
  std::map<std::pair<void *, int64_t>, int64_t> channels;
};

} // namespace

// What follows a sum over all microbatches, on whatever stage, runs after the last of them.
void Splitter::markUpdates() {
  DenseSet<Operation *> after;
  for (Operation &op : block) {
    if (llvm::none_of(op.getOperands(), [&](Value v) {
          return after.contains(v.getDefiningOp()) || v.getDefiningOp<dist::AccumulateOp>();
        }))
      continue;
    after.insert(&op);
    if (auto part = PipelinePart::of(&op))
      PipelinePart{part->chunk, PipelineWork::Update}.setOn(&op);
  }
}

// Channels are numbered in the order of definitions, which is the order of sends.
void Splitter::findCrossings() {
  for (Operation &op : block)
    for (Value result : op.getResults()) {
      std::optional<int64_t> home = stageOf(result);
      if (!home)
        continue;
      for (Operation *user : result.getUsers())
        if (auto part = PipelinePart::of(user); part && pipeline.stages[part->chunk] != *home)
          crossings[result].insert(pipeline.stages[part->chunk]);
      for (int64_t stage : crossings.lookup(result))
        channels.try_emplace({result.getAsOpaquePointer(), stage}, int64_t(channels.size()));
    }
}

LogicalResult Splitter::clone(Operation *op, int64_t stage, Operation *user) {
  for (Value operand : op->getOperands())
    if (failed(onStage(operand, stage, op)))
      return failure();
  b.clone(*op, map);
  return success();
}

// The user on the stage, which has one, whose step is the first of a microbatch, which need not be the first
// in the block: chunks go forward one by one, backward the other way round, and weights' gradients follow
// when there is time.
Operation *Splitter::firstUser(Value value, int64_t stage) const {
  auto place = [](const PipelinePart &part) {
    return std::pair(int(part.work), part.work == PipelineWork::Forward ? part.chunk : -part.chunk);
  };
  std::optional<PipelinePart> first;
  Operation *user = nullptr;
  for (Operation *other : value.getUsers())
    if (auto part = PipelinePart::of(other);
        part && pipeline.stages[part->chunk] == stage && (!first || place(*part) < place(*first))) {
      first = part;
      user = other;
    }
  return user;
}

// Where the value is made and sent, not where it is used first: so messages between two stages behind the
// last step, where no schedule orders them, arrive in the order sent, and all stages follow one order.
void Splitter::receive(Operation &op, int64_t stage) {
  int64_t home = pipeline.stages[PipelinePart::of(&op)->chunk];
  for (Value result : op.getResults())
    if (crossings.lookup(result).count(stage)) {
      auto received = dist::RecvOp::create(b, result.getLoc(), result.getType(), home,
                                           channels.at({result.getAsOpaquePointer(), stage}));
      dist::copyPipelinePart(firstUser(result, stage), received);
      map.map(result, received.getResult());
    }
}

FailureOr<Value> Splitter::onStage(Value value, int64_t stage, Operation *user) {
  if (map.contains(value))
    return map.lookup(value);
  Operation *op = value.getDefiningOp();
  std::optional<int64_t> home = stageOf(value);
  if (!home) {
    if (failed(clone(op, stage, user)))
      return failure();
    return map.lookup(value);
  }
  return user->emitOpError("is part of no pipeline stage but uses a value of stage ") << *home, failure();
}

// A stage without a term adds zero.
LogicalResult Splitter::sumOverStages(nn::AccOp acc, int64_t number, int64_t stage) {
  auto type = cast<RankedTensorType>(acc.getType());
  SmallVector<Value> own;
  for (Value term : acc.getTerms())
    if (stageOf(term).value_or(0) == stage) {
      FailureOr<Value> value = onStage(term, stage, acc);
      if (failed(value))
        return failure();
      own.push_back(*value);
    }
  int64_t chunk = llvm::find(pipeline.stages, stage) - pipeline.stages.begin();
  auto mark = [&](Operation *op) { PipelinePart{chunk, PipelineWork::Update}.setOn(op); };
  Value sum = own.empty() ? Value() : own.front();
  if (own.empty())
    sum = nn::ConstantOp::create(b, acc.getLoc(), type, cast<ElementsAttr>(b.getZeroAttr(type)));
  if (own.size() > 1)
    sum = nn::AccOp::create(b, acc.getLoc(), type, own);
  if (own.size() != 1)
    mark(sum.getDefiningOp());
  dist::CollectiveSpec spec{
      .kind = dist::CollectiveKind::AllReduce, .axes = {pipeline.axisRef()}, .reduce = dist::ReduceKind::Sum};
  auto whole = dist::CollectiveOp::create(b, acc.getLoc(), sum, spec);
  dist::kStageSum.set(whole, b.getI64IntegerAttr(number));
  mark(whole);
  map.map(acc.getResult(), whole.getResult());
  return success();
}

LogicalResult Splitter::returnFrom(Operation *op, int64_t stage) {
  SmallVector<Value> values;
  for (Value operand : op->getOperands()) {
    if (stageOf(operand).value_or(stage) != stage) {
      values.push_back(dist::AbsentOp::create(b, op->getLoc(), operand.getType()));
      continue;
    }
    FailureOr<Value> value = onStage(operand, stage, op);
    if (failed(value))
      return failure();
    values.push_back(*value);
  }
  func::ReturnOp::create(b, op->getLoc(), values);
  return success();
}

LogicalResult Splitter::emit(int64_t stage) {
  map.clear();
  b.setInsertionPoint(func);
  auto own = cast<func::FuncOp>(b.insert(func->cloneWithoutRegions()));
  own.setName((func.getName() + "_stage" + Twine(stage)).str());
  dist::kProgram.set(own, b.getStringAttr(func.getName()));
  dist::kStage.set(own, b.getI64IntegerAttr(stage));
  Block *body = own.addEntryBlock();
  map.map(block.getArguments(), body->getArguments());
  b.setInsertionPointToEnd(body);
  int64_t sums = 0;
  for (Operation &op : block) {
    if (op.hasTrait<OpTrait::IsTerminator>())
      return returnFrom(&op, stage);
    if (dist::kOverStages.isOn(&op)) {
      if (failed(sumOverStages(cast<nn::AccOp>(op), sums++, stage)))
        return failure();
      continue;
    }
    auto part = PipelinePart::of(&op);
    if (!part)
      continue;
    if (pipeline.stages[part->chunk] != stage) {
      receive(op, stage);
      continue;
    }
    if (failed(clone(&op, stage, &op)))
      return failure();
    for (Value result : op.getResults())
      for (int64_t other : crossings.lookup(result)) {
        auto sent = dist::SendOp::create(b, op.getLoc(), map.lookup(result), other,
                                         channels.at({result.getAsOpaquePointer(), other}));
        part->setOn(sent);
      }
  }
  return success();
}

LogicalResult Splitter::run() {
  markUpdates();
  findCrossings();
  for (int64_t stage = 0; stage < pipeline.numStages; ++stage)
    if (failed(emit(stage)))
      return failure();
  func.erase();
  return success();
}

LogicalResult tessera::splitStages(func::FuncOp func, const dist::Pipeline &pipeline) {
  return Splitter(func, pipeline).run();
}
