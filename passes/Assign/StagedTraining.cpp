// Makes the training program one of stages.
#include "dialects/dist/Attributes.h"
#include "dialects/nn/Attributes.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Assign/Stages.h"
#include "llvm/ADT/MapVector.h"
#include <map>
#include <set>

using namespace mlir;
using namespace tessera;
using dist::PipelinePart;
using dist::PipelineWork;

namespace {

class StagedTraining {
public:
  StagedTraining(func::FuncOp func, const Dependence &dependence, const dist::Pipeline &pipeline)
      : func(func), dependence(dependence), pipeline(pipeline), block(func.getBody().front()),
        b(func.getContext()) {}
  LogicalResult run();

private:
  int64_t stageOf(int64_t chunk) const { return pipeline.stages[chunk]; }
  std::optional<PipelinePart> partOf(Value value) const {
    Operation *op = value.getDefiningOp();
    return op ? PipelinePart::of(op) : std::nullopt;
  }
  Value add(Operation *before, ValueRange terms, Attribute of, PipelinePart part);
  void placeGradients();
  void splitCotangent(nn::AccOp acc);
  void separateWeights();
  void findReadingStages();
  void gatherGradient(nn::AccOp acc);
  Value onStage(Value value, int64_t stage);
  int64_t ownerOf(Value value);
  Value overStages(Location loc, ValueRange perStage);
  void eraseDead();

  func::FuncOp func;
  const Dependence &dependence;
  const dist::Pipeline &pipeline;
  Block &block;
  OpBuilder b;
  llvm::StringMap<Operation *> forward;
  llvm::StringMap<std::map<int64_t, int64_t>>
      readers; // parameter -> stages that use it -> their first chunk that does
  DenseMap<Value, std::map<int64_t, Value>>
      whole; // a parameter's gradient -> the same on each stage that holds it
  std::map<std::pair<void *, int64_t>, Value>
      made; // of what follows whole gradients: (value, stage) -> the stage's own
};

} // namespace

Value StagedTraining::add(Operation *before, ValueRange terms, Attribute of, PipelinePart part) {
  b.setInsertionPoint(before);
  auto acc = nn::AccOp::create(b, before->getLoc(), terms);
  nn::kCotangentOf.set(acc, of);
  part.setOn(acc);
  return acc;
}

// A gradient operator is on its forward operator's chunk; one of a value that has no place itself (a
// transposed weight, a norm of a table that all layers read) on the lowest of its cotangents', which the
// backward reaches last.
void StagedTraining::placeGradients() {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (auto id = nn::kId.of(&op))
      forward[id.getValue()] = &op;
    if (!isGradient(&op))
      continue;
    std::optional<PipelinePart> fromOperand;
    for (Value operand : op.getOperands())
      if (auto part = partOf(operand)) {
        bool isBackward = part->work == PipelineWork::Backward,
             hadBackward = fromOperand && fromOperand->work == PipelineWork::Backward;
        if (!fromOperand || (isBackward && (!hadBackward || part->chunk < fromOperand->chunk)))
          fromOperand = part;
      }
    Operation *primal = nullptr;
    if (auto gradOf = nn::kGradOf.of(&op))
      primal = forward.lookup(gradOf.getId());
    else
      primal = forward.lookup(nn::cotangentOfValue(&op).getId());
    auto home = primal ? PipelinePart::of(primal) : std::nullopt;
    bool isSeed = isa<nn::AccOp>(op); // the first cotangent is made of constants and counts
    if (!fromOperand && !isSeed)
      continue;
    if (!home && !fromOperand)
      continue;
    PipelinePart{home ? home->chunk : fromOperand->chunk, PipelineWork::Backward}.setOn(&op);
    if (auto acc = dyn_cast<nn::AccOp>(op))
      splitCotangent(acc);
  }
}

// What a stage consumes of another's value it adds up itself, so that one cotangent goes back.
void StagedTraining::splitCotangent(nn::AccOp acc) {
  PipelinePart home = *PipelinePart::of(acc);
  SmallVector<Value> kept;
  std::map<int64_t, std::pair<int64_t, SmallVector<Value>>> others; // stage -> its first chunk, terms
  for (Value term : acc.getTerms()) {
    auto part = partOf(term);
    if (!part || stageOf(part->chunk) == stageOf(home.chunk)) {
      kept.push_back(term);
      continue;
    }
    auto &[chunk, terms] =
        others.try_emplace(stageOf(part->chunk), part->chunk, SmallVector<Value>()).first->second;
    // The backward reaches the lower chunk later.
    chunk = std::min(chunk, part->chunk);
    terms.push_back(term);
  }
  for (auto &[stage, entry] : others)
    kept.push_back(add(acc, entry.second, nn::kCotangentOf.of(acc), {entry.first, PipelineWork::Backward}));
  acc->setOperands(kept);
}

// What the cotangent of an operator with a place, or a message, is computed from is the backward proper; the
// rest only makes gradients of parameters.
void StagedTraining::separateWeights() {
  DenseSet<Operation *> needed;
  for (Operation &op : llvm::reverse(block)) {
    nn::ForwardValueAttr of = nn::cotangentOfValue(&op);
    Operation *primal = of ? forward.lookup(of.getId()) : nullptr;
    bool isRoot = primal && PipelinePart::of(&op) && dependence.hasPlace(primal);
    bool isNeeded = isRoot || needed.contains(&op);
    if (isNeeded)
      needed.insert(&op);
    // Weights' steps of two stages have no order.
    auto crosses = [&](Operation *def) {
      auto from = PipelinePart::of(def), to = PipelinePart::of(&op);
      return isGradient(&op) && from && to && stageOf(from->chunk) != stageOf(to->chunk);
    };
    for (Value operand : op.getOperands())
      if (Operation *def = operand.getDefiningOp(); def && isGradient(def) && (isNeeded || crosses(def)))
        needed.insert(def);
  }
  for (Operation &op : block)
    if (auto part = PipelinePart::of(&op); part && isGradient(&op) && !needed.contains(&op))
      PipelinePart{part->chunk, PipelineWork::Weight}.setOn(&op);
}

void StagedTraining::findReadingStages() {
  for (auto read : block.getOps<nn::ReadOp>()) {
    auto &stages = readers[read.getVariable()];
    SmallVector<Value> work = {read.getResult()};
    DenseSet<Operation *> seen;
    while (!work.empty())
      for (Operation *user : work.pop_back_val().getUsers()) {
        if (auto part = PipelinePart::of(user)) {
          auto [it, isNew] = stages.try_emplace(stageOf(part->chunk), part->chunk);
          it->second = std::min(it->second, part->chunk);
        } else if (seen.insert(user).second && !isa<nn::UpdateOp>(user)) {
          work.append(user->result_begin(), user->result_end());
        }
      }
  }
}

// Each stage has its own accumulator; after the last microbatch they are exchanged and added, on every stage
// in the same order.
void StagedTraining::gatherGradient(nn::AccOp acc) {
  auto &stages = readers[nn::gradientOfParameter(acc)];
  std::map<int64_t, std::pair<int64_t, SmallVector<Value>>> terms;
  for (Value term : acc.getTerms()) {
    auto part = partOf(term);
    int64_t chunk = part ? part->chunk : stages.empty() ? 0 : stages.begin()->second;
    auto &[first, list] = terms.try_emplace(stageOf(chunk), chunk, SmallVector<Value>()).first->second;
    first = std::min(first, chunk);
    list.push_back(term);
    stages.try_emplace(stageOf(chunk), chunk);
  }
  Attribute of = nn::kCotangentOf.of(acc);
  SmallVector<Value> sums;
  for (auto &[stage, entry] : terms)
    sums.push_back(add(acc, entry.second, of, {entry.first, PipelineWork::Weight}));
  for (auto [stage, chunk] : stages)
    whole[acc.getResult()][stage] =
        sums.size() == 1 ? sums[0] : add(acc, sums, of, {chunk, PipelineWork::Update});
}

// The stage that stands for a value that follows whole gradients: the first that holds the parameter.
int64_t StagedTraining::ownerOf(Value value) {
  if (auto it = whole.find(value); it != whole.end())
    return it->second.begin()->first;
  if (auto part = partOf(value))
    return stageOf(part->chunk);
  if (Operation *op = value.getDefiningOp())
    for (Value operand : op->getOperands())
      if (int64_t stage = ownerOf(operand); stage >= 0)
        return stage;
  return -1;
}

Value StagedTraining::overStages(Location loc, ValueRange perStage) {
  b.setInsertionPoint(block.getTerminator());
  auto sum = nn::AccOp::create(b, loc, perStage);
  dist::kOverStages.mark(sum);
  return sum;
}

// The stage's own form of a value that follows whole gradients. A sum over parameters of different stages is
// one over stages.
Value StagedTraining::onStage(Value value, int64_t stage) {
  if (auto it = whole.find(value); it != whole.end())
    return it->second.count(stage) ? it->second.at(stage) : it->second.begin()->second;
  Operation *op = value.getDefiningOp();
  if (!op || PipelinePart::of(op) || ownerOf(value) < 0)
    return value; // an input, a parameter, a constant
  bool sumsAll = isa<nn::AccOp>(op);
  std::pair<void *, int64_t> key{value.getAsOpaquePointer(), sumsAll ? -1 : stage};
  if (auto it = made.find(key); it != made.end())
    return it->second;
  if (sumsAll) {
    std::map<int64_t, SmallVector<Value>> terms;
    for (Value operand : op->getOperands()) {
      int64_t owner = ownerOf(operand);
      terms[owner].push_back(onStage(operand, owner));
    }
    SmallVector<Value> sums;
    for (auto &[owner, list] : terms) {
      b.setInsertionPoint(block.getTerminator());
      auto sum = nn::AccOp::create(b, op->getLoc(), list);
      PipelinePart{partOf(list.front())->chunk, PipelineWork::Update}.setOn(sum);
      sums.push_back(sum);
    }
    return made[key] = overStages(op->getLoc(), sums);
  }
  IRMapping map;
  std::optional<PipelinePart> part;
  for (Value operand : op->getOperands()) {
    Value own = onStage(operand, stage);
    map.map(operand, own);
    // A gradient may be another stage's sum, which is sent here.
    if (partOf(own) || whole.contains(operand))
      part = partOf(own);
  }
  b.setInsertionPoint(block.getTerminator());
  Operation *clone = b.clone(*op, map);
  // What uses only sums over stages is every stage's.
  if (part) {
    for (int64_t chunk = 0; chunk < int64_t(pipeline.stages.size()); ++chunk)
      if (stageOf(chunk) == stage) {
        PipelinePart{chunk, PipelineWork::Update}.setOn(clone);
        break;
      }
  }
  for (auto [old, now] : llvm::zip(op->getResults(), clone->getResults())) {
    made[{old.getAsOpaquePointer(), stage}] = now;
    if (!part)
      for (int64_t other = 0; other < pipeline.numStages; ++other)
        made[{old.getAsOpaquePointer(), other}] = now;
  }
  return made.at(key);
}

void StagedTraining::eraseDead() {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

LogicalResult StagedTraining::run() {
  placeGradients();
  separateWeights();
  findReadingStages();
  SmallVector<nn::AccOp> gradients;
  SmallVector<nn::AssignOp> assigns(block.getOps<nn::AssignOp>());
  for (auto acc : block.getOps<nn::AccOp>())
    if (!nn::gradientOfParameter(acc).empty())
      gradients.push_back(acc);
  for (nn::AccOp acc : gradients)
    gatherGradient(acc);
  SymbolTableCollection symbols;
  for (nn::AssignOp assign : assigns) {
    auto variable = symbols.lookupNearestSymbolFrom<nn::VariableOp>(assign, assign.getVariableAttr());
    auto stages = readers[variable.getOf().value_or(assign.getVariable())];
    // What no stage reads is on the one that computes it.
    if (stages.empty()) {
      int64_t owner = std::max<int64_t>(ownerOf(assign.getValue()), 0);
      stages[owner] = llvm::find(pipeline.stages, owner) - pipeline.stages.begin();
    }
    for (auto [stage, chunk] : stages) {
      Value own = onStage(assign.getValue(), stage);
      b.setInsertionPoint(block.getTerminator());
      auto clone = nn::AssignOp::create(b, assign.getLoc(), assign.getVariable(), own);
      PipelinePart{chunk, PipelineWork::Update}.setOn(clone);
    }
    assign.erase();
  }
  for (OpOperand &operand : block.getTerminator()->getOpOperands()) {
    Value value = operand.get();
    if (auto part = partOf(value))
      operand.set(overStages(value.getLoc(), value)); // the loss, which one stage has
    else if (int64_t owner = ownerOf(value); owner >= 0)
      operand.set(onStage(value, owner));
  }
  eraseDead();
  return success();
}

LogicalResult tessera::stageTraining(func::FuncOp func, const Dependence &dependence,
                                     const dist::Pipeline &pipeline) {
  return StagedTraining(func, dependence, pipeline).run();
}
