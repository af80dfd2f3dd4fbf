// A stage's program of one microbatch becomes that of the whole step, in the order of the schedule.
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pipeline.h"
#include "dialects/dist/Reshard.h"
#include "dialects/nn/NN.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Memory/Liveness.h"
#include "passes/Pipeline/PipelineSchedule.h"
#include "passes/Schedule/Passes.h"
#include "passes/Schedule/PipelineMessages.h"
#include "llvm/ADT/MapVector.h"
#include <map>

namespace tessera {
#define GEN_PASS_DEF_EMITPIPELINE
#include "passes/Schedule/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;
using dist::PipelinePart;
using dist::PipelineWork;

namespace {

// A sum over microbatches, whose terms come one after the other, in a tree.
class TreeSum {
public:
  void add(OpBuilder &b, Location loc, Value term, const std::vector<int64_t> &levels) {
    partial.resize(std::max<size_t>(1, levels.size()));
    counts.resize(partial.size());
    // A subtree that has ended is a term of the one above.
    for (size_t level = partial.size(); level-- > 0; counts[level] = 0) {
      Value &sum = partial[level];
      sum = sum ? nn::AddOp::create(b, loc, term.getType(), sum, term).getResult() : term;
      if (level == 0 || ++counts[level] < levels[level])
        return;
      term = std::exchange(sum, Value());
    }
  }
  Value value() const { return partial.front(); }

private:
  SmallVector<Value> partial;
  SmallVector<int64_t> counts;
};

class StageEmitter {
public:
  StageEmitter(func::FuncOp func, const std::vector<pipeline::Step> &steps, const PipelineMessages &messages,
               bool splitsBackward, int64_t micro, const std::vector<int64_t> &levels)
      : func(func), steps(steps), stage(dist::stageOf(func)), messages(messages),
        splitsBackward(splitsBackward), levels(levels), old(func.getBody().front()), b(func.getContext()),
        ofMicro(micro) {}
  LogicalResult run();

private:
  LogicalResult checkSums();
  // When an operator runs: before the first microbatch, once before its first use, in steps of its part, once
  // a microbatch before its first use, after the last.
  enum class When { Before, First, Step, Use, After };
  void classify();
  void putInFront(Operation *op);
  void emitShared();
  void emitStep(size_t place);
  void emitIn(Operation *op, IRMapping &map);
  Value valueIn(Value value, IRMapping &map);
  Value valueAfter(Value value);
  void emitAfter();
  void send(dist::SendOp op, int64_t micro, Value value);
  void wait(const PipelineMessage &message);
  void waitForAll();
  bool belongs(Operation *op, const pipeline::Step &step) const;

  func::FuncOp func;
  const std::vector<pipeline::Step> &steps;
  const int64_t stage;
  const PipelineMessages &messages;
  const bool splitsBackward;
  const std::vector<int64_t> &levels; // see rt::Shards; none: terms are added one after the other
  Block &old;
  OpBuilder b;
  DenseMap<Operation *, When> when;
  DenseSet<Operation *> varies;  // with the microbatch
  DenseSet<Operation *> briefly; // the same in each, but gathered, and so not kept from one to the next
  IRMapping whole;               // what every microbatch shares, and sums
  std::vector<IRMapping> ofMicro;
  DenseMap<Value, TreeSum> sums;           // result of an accumulate -> what has been added so far
  DenseMap<int64_t, Operation *> receives; // channel -> the receive of one microbatch
  LogicalResult ok = success();
  std::map<PipelineMessage, Value> sending; // messages that have not been waited for -> tokens
};

} // namespace

void StageEmitter::classify() {
  for (Operation &op : old) {
    // Equal constants are one, whatever each was part of.
    if (op.hasTrait<OpTrait::ConstantLike>()) {
      when[&op] = When::Before;
      continue;
    }
    auto part = PipelinePart::of(&op);
    bool after = part && part->work == PipelineWork::Update, inStep = false,
         micro = dist::readsMicro(&op) || isa<dist::RecvOp>(op), gathered = dist::kGather.isOn(&op),
         collected = false;
    if (auto receive = dyn_cast<dist::RecvOp>(op))
      receives[receive.getChannel()] = &op;
    if (auto send = dyn_cast<dist::SendOp>(op))
      after |= !messages.channels.contains(send.getChannel());
    for (Value operand : op.getOperands())
      if (Operation *def = operand.getDefiningOp()) {
        after |= isa<dist::AccumulateOp>(def) || when.lookup(def) == When::After;
        inStep |= when.lookup(def) == When::Step;
        micro |= varies.contains(def);
        gathered |= briefly.contains(def);
        collected |= when.lookup(def) == When::First;
      }
    if (micro)
      varies.insert(&op);
    else if (gathered)
      briefly.insert(&op);
    const bool sent = isa<dist::CollectiveOp>(op) || (collected && (isView(&op) || isa<dist::UnpackOp>(op)));
    when[&op] = after                         ? When::After
                : part                        ? When::Step
                : micro || gathered || inStep ? When::Use
                : sent                        ? When::First
                                              : When::Before;
    if (when[&op] == When::Before && !op.hasTrait<OpTrait::IsTerminator>())
      putInFront(&op);
  }
}

// What is computed once for all microbatches lies in front of the first step, with all it needs: in that
// step, a kernel might take it in, and the first microbatch round otherwise than the rest.
void StageEmitter::putInFront(Operation *op) {
  when[op] = When::Before;
  for (Operation *def : llvm::map_range(op->getOperands(), [](Value v) { return v.getDefiningOp(); }))
    if (def && when.lookup(def) == When::First)
      putInFront(def);
}

bool StageEmitter::belongs(Operation *op, const pipeline::Step &step) const {
  if (when.lookup(op) != When::Step)
    return false;
  return stepOf(*PipelinePart::of(op), step.micro, splitsBackward) == step;
}

// A value as the microbatch has it. What no step has of its own is made before its first use.
Value StageEmitter::valueIn(Value value, IRMapping &map) {
  if (map.contains(value))
    return map.lookup(value);
  if (Operation *def = value.getDefiningOp(); def && when.lookup(def) == When::Use)
    emitIn(def, map);
  else if (def && when.lookup(def) == When::First && !whole.contains(value))
    emitIn(def, whole);
  Value found = map.lookupOrDefault(whole.lookupOrDefault(value));
  if (Operation *def = found.getDefiningOp(); def && def->getBlock() == &old && succeeded(ok))
    ok = def->emitOpError("is computed in a later step of the schedule than one that uses it; another "
                          "schedule or number of microbatches would do");
  return found;
}

void StageEmitter::emitIn(Operation *op, IRMapping &map) {
  for (Value operand : op->getOperands())
    map.map(operand, valueIn(operand, map));
  b.clone(*op, map);
}

// What all microbatches share and have to send for, as far as nobody has needed it yet.
void StageEmitter::emitShared() {
  for (Operation &op : old)
    if (when.lookup(&op) == When::First &&
        llvm::none_of(op.getResults(), [&](Value result) { return whole.contains(result); }))
      emitIn(&op, whole);
}

void StageEmitter::send(dist::SendOp op, int64_t micro, Value value) {
  auto type = dist::TokenType::get(b.getContext(), cast<RankedTensorType>(value.getType()));
  auto start = dist::SendStartOp::create(b, op.getLoc(), type, value, op.getStage(), op.getChannel());
  sending[{int64_t(op.getChannel()), micro}] = start.getToken();
}

void StageEmitter::wait(const PipelineMessage &message) {
  auto it = sending.find(message);
  if (it == sending.end()) {
    if (succeeded(ok))
      ok = func.emitError("sends a value in a later step of the schedule than it is waited for in");
    return;
  }
  dist::SendWaitOp::create(b, it->second.getLoc(), it->second);
  sending.erase(it);
}

void StageEmitter::waitForAll() {
  while (!sending.empty())
    wait(sending.begin()->first);
}

void StageEmitter::emitStep(size_t place) {
  const pipeline::Step &step = steps[place];
  dist::StepOp::create(b, func.getLoc(), PipelineWork(int(step.work)), step.chunk, step.micro);
  IRMapping &map = ofMicro[step.micro];
  for (const PipelineMessage &message : messages.stages[stage].receives[place])
    emitIn(receives.at(message.channel), ofMicro[message.micro]);
  for (Operation &op : old) {
    if (!belongs(&op, step) || isa<dist::RecvOp>(op))
      continue;
    if (auto accumulate = dyn_cast<dist::AccumulateOp>(op)) {
      sums[accumulate.getResult()].add(b, op.getLoc(), valueIn(accumulate.getTerm(), map), levels);
    } else if (auto sent = dyn_cast<dist::SendOp>(op)) {
      send(sent, step.micro, valueIn(sent.getSource(), map));
    } else {
      emitIn(&op, map);
    }
  }
  for (const PipelineMessage &message : messages.stages[stage].waits[place])
    wait(message);
}

// A value as it is behind the last step. With one microbatch nothing is accumulated: values of its steps are
// used as they are, as are those that are the same in each.
Value StageEmitter::valueAfter(Value value) {
  if (whole.contains(value))
    return whole.lookup(value);
  Operation *def = value.getDefiningOp();
  if (def && briefly.contains(def) && ofMicro.size() > 1) {
    for (Value operand : def->getOperands())
      whole.map(operand, valueAfter(operand));
    b.clone(*def, whole);
    return whole.lookup(value);
  }
  if (def && when.lookup(def) == When::Use && !ofMicro[0].contains(value))
    emitIn(def, ofMicro[0]);
  return ofMicro[0].lookupOrDefault(value);
}

void StageEmitter::emitAfter() {
  dist::StepOp::create(b, func.getLoc(), PipelineWork::Update, 0, 0);
  waitForAll();
  for (const auto &[result, sum] : sums)
    whole.map(result, sum.value());
  for (Operation &op : old) {
    if (when.lookup(&op) != When::After && !op.hasTrait<OpTrait::IsTerminator>())
      continue;
    for (Value operand : op.getOperands())
      whole.map(operand, valueAfter(operand));
    if (op.hasTrait<OpTrait::IsTerminator>())
      waitForAll();
    if (auto sent = dyn_cast<dist::SendOp>(op))
      send(sent, 0, whole.lookup(sent.getSource()));
    else
      b.clone(op, whole);
  }
}

LogicalResult StageEmitter::checkSums() {
  for (Operation &op : old)
    for (Value operand : op.getOperands())
      if (Operation *def = operand.getDefiningOp();
          def && ofMicro.size() > 1 && when.lookup(&op) == When::After && !isa<dist::AccumulateOp>(def) &&
          (when.lookup(def) == When::Step || when.lookup(def) == When::Use) && varies.contains(def))
        return op.emitOpError("uses a value of one microbatch beside a sum over all of them, which is known "
                              "after the last; train without microbatches");
  return success();
}

LogicalResult StageEmitter::run() {
  classify();
  if (failed(checkSums()))
    return failure();
  auto *block = new Block();
  for (BlockArgument arg : old.getArguments())
    whole.map(arg, block->addArgument(arg.getType(), arg.getLoc()));
  b.setInsertionPointToEnd(block);
  for (Operation &op : old)
    if (when.lookup(&op) == When::Before && !op.hasTrait<OpTrait::IsTerminator>())
      b.clone(op, whole);
  // A first step that receives something leaves time for what is sent for; another one need not wait for all
  // of it.
  const bool waits = steps.empty() || !messages.stages[stage].receives.front().empty();
  if (waits)
    emitShared();
  for (size_t place = 0; place < steps.size(); ++place) {
    emitStep(place);
    if (place == 0 && !waits)
      emitShared();
  }
  if (succeeded(ok))
    emitAfter();
  if (failed(ok)) {
    block->dropAllReferences();
    delete block;
    return failure();
  }
  old.dropAllReferences();
  old.erase();
  func.getBody().push_back(block);
  return success();
}

namespace {
struct EmitPipelinePass : tessera::impl::EmitPipelineBase<EmitPipelinePass> {
  using EmitPipelineBase::EmitPipelineBase;
  void runOnOperation() override {
    ModuleOp module = getOperation();
    std::optional<dist::Pipeline> pipe = dist::Pipeline::of(module);
    if (!pipe)
      return;
    const pipeline::Schedule *schedule = pipeline::findSchedule(pipe->schedule);
    if (!schedule) {
      module.emitError("has the unknown pipeline schedule \"")
          << pipe->schedule << "\"; schedules are " << pipeline::scheduleNames();
      return signalPassFailure();
    }
    llvm::MapVector<StringAttr, SmallVector<func::FuncOp>> programs;
    for (auto func : module.getOps<func::FuncOp>())
      if (auto name = dist::kProgram.of(func))
        programs[name].push_back(func);
    for (auto &[name, funcs] : programs)
      if (failed(emit(module, *pipe, *schedule, name, funcs)))
        return signalPassFailure();
  }

  LogicalResult emit(ModuleOp module, const dist::Pipeline &pipe, const pipeline::Schedule &schedule,
                     StringAttr name, SmallVectorImpl<func::FuncOp> &funcs) {
    llvm::sort(funcs, [&](func::FuncOp a, func::FuncOp c) { return dist::stageOf(a) < dist::stageOf(c); });
    if (int64_t(funcs.size()) != pipe.numStages)
      return module.emitError("program ")
             << name << " has functions for " << funcs.size() << " of " << pipe.numStages << " stages";
    bool trains = llvm::any_of(funcs, [](func::FuncOp func) {
      return llvm::any_of(func.getBody().front(), [](Operation &op) {
        auto part = PipelinePart::of(&op);
        return part && part->work != PipelineWork::Forward;
      });
    });
    int64_t micro = trains ? dist::microbatchTurns(module) : 1;
    if (turns > 0)
      micro = std::min<int64_t>(micro, turns);
    pipeline::Shape shape{pipe.numStages, int64_t(pipe.stages.size()), micro};
    pipeline::Order order = trains ? schedule.order(shape) : pipeline::Order(shape.stages);
    // Inference runs the whole batch through the chunks once.
    for (int64_t chunk = 0; chunk < shape.chunks && !trains; ++chunk)
      order[pipe.stages[chunk]].push_back({pipeline::Work::Forward, chunk, 0});
    std::optional<pipeline::Simulation> simulation = pipeline::simulate(schedule, shape, order);
    if (!simulation)
      return module.emitError("program ") << name << ": in schedule " << pipe.schedule << " with " << micro
                                          << " microbatches a stage waits for ever";
    PipelineMessages messages = planMessages(funcs, order, *simulation, schedule.splitsBackward, micro);
    std::optional<rt::Shards> shards = dist::shardsOf(module);
    const std::vector<int64_t> levels = shards ? shards->microbatchLevels() : std::vector<int64_t>();
    for (auto [func, steps] : llvm::zip(funcs, order)) {
      if (failed(StageEmitter(func, steps, messages, schedule.splitsBackward, micro, levels).run()))
        return failure();
      numSteps += steps.size();
    }
    return success();
  }
};
} // namespace
