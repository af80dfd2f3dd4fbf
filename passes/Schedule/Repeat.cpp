// See Repeat.h.
#include "passes/Schedule/Repeat.h"
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pack.h"
#include "dialects/exec/Exec.h"
#include "dialects/nn/Attributes.h"
#include "dialects/nn/Work.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/Memory/Hazards.h"
#include "passes/Memory/Liveness.h"
#include "passes/Schedule/Places.h"
#include "passes/Schedule/SameValue.h"
#include "passes/Schedule/Sizes.h"
#include "passes/Schedule/TierTrace.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"
#include <set>

using namespace mlir;
using namespace tessera;

namespace {

// A block in phases: the forward and what is behind it; of a stage of a pipeline its steps.
class Phases {
public:
  explicit Phases(Block &block);

  Block &block;
  SmallVector<Operation *> ops; // all of the block but the terminator
  SmallVector<bool> isForward;  // by phase

  /// The phase of an operator that the block or a block inside of it has; the last one's of the terminator.
  int phaseOf(Operation *op) const { return phases.at(block.findAncestorOpInBlock(*op)); }
  int64_t positionOf(Operation *op) const { return positions.at(block.findAncestorOpInBlock(*op)); }

  llvm::DenseMap<Operation *, int> phases;

private:
  llvm::DenseMap<Operation *, int64_t> positions;
};

Phases::Phases(Block &block) : block(block) {
  bool hasSteps = !block.getOps<dist::StepOp>().empty(), isBackward = false;
  isForward.push_back(!hasSteps);
  for (Operation &op : block) {
    if (auto step = dyn_cast<dist::StepOp>(op)) {
      isForward.push_back(step.getWork() == dist::PipelineWork::Forward);
    } else if (!hasSteps && !isBackward && nn::kGradOf.isOn(&op) && !isView(&op)) {
      isForward.push_back(false);
      isBackward = true;
    }
    phases[&op] = isForward.size() - 1;
    positions[&op] = ops.size();
    if (!op.hasTrait<OpTrait::IsTerminator>())
      ops.push_back(&op);
  }
}

// What a value is a view of, by reshapes in its block.
Value viewed(Value value) {
  for (Operation *def = value.getDefiningOp(); def && isView(def); def = value.getDefiningOp())
    value = def->getOperand(0);
  return value;
}

// Computes values from values alone, on this rank. Collectives are not run again.
bool isRepeatable(Operation *op) {
  return op->getNumRegions() == 0 && op->getNumResults() > 0 && isMemoryEffectFree(op) &&
         !isa<nn::ReadOp, dist::CollectiveInterface, dist::PackOp, dist::UnpackOp, exec::OwnOp>(op) &&
         !op->hasTrait<OpTrait::ConstantLike>() &&
         llvm::all_of(op->getResultTypes(), [](Type type) { return isa<RankedTensorType>(type); });
}

// Follows the uses of a value and of its views.
void forEachUser(Value value, llvm::function_ref<void(Operation *)> fn) {
  for (Operation *user : value.getUsers()) {
    if (isView(user))
      forEachUser(user->getResult(0), fn);
    else
      fn(user);
    // What a collective is started with is read until it is waited for.
    if (user->getNumResults() == 1 && isa<dist::TokenType>(user->getResult(0).getType()))
      for (Operation *wait : user->getResult(0).getUsers())
        fn(wait);
  }
}

recompute::Operator traceOf(Operation *op, const Phases &phases, int64_t begin) {
  recompute::Operator traced;
  traced.repeatable = isRepeatable(op);
  if (isView(op) || isa<nn::ReadOp>(op))
    return traced;
  int phase = phases.phaseOf(op);
  for (Value result : op->getResults()) {
    recompute::Value value;
    value.lastForward = phases.positionOf(op) - begin;
    if (auto type = dyn_cast<RankedTensorType>(result.getType()); type && type.getNumElements() > 1)
      value.bytes = dist::bytesOf(type);
    forEachUser(result, [&](Operation *user) {
      int at = phases.phaseOf(user);
      if (at == phase)
        value.lastForward = std::max(value.lastForward, phases.positionOf(user) - begin);
      else
        value.late = true;
      // What is returned, carried or assigned stays where it was made, and so does what another microbatch's
      // or chunk's forward reads.
      if (user->hasTrait<OpTrait::IsTerminator>() || isa<nn::AssignOp>(user) ||
          (at != phase && phases.isForward[at]))
        traced.repeatable = false;
    });
    traced.values.push_back(value);
  }
  return traced;
}

// An operator that is to run again, and in front of which other one.
struct Run {
  Operation *op, *before;
};

class Repeater {
public:
  Repeater(Block &block, DenseSet<Operation *> &chosen)
      : phases(block), hazards(block), chosen(chosen), b(block.getParentOp()->getContext()) {}

  Repeats run(llvm::StringMap<int> &names, const llvm::DenseMap<Value, ValueName> &known);

private:
  void findRuns();
  void need(Value value, Operation *before, int phase);
  bool readsWritten(const Run &run) const;
  Value mapped(Value value, int phase);
  void findGather(Value value, int phase, Operation *before);
  void bringForward(Operation *gather, Operation *before, int phase);
  void emit();
  void eraseDead();
  Repeats name(llvm::StringMap<int> &names);

  Phases phases;
  const Hazards hazards;
  DenseSet<Operation *> &chosen;
  OpBuilder b;
  SmallVector<Run> runs; // in the order in which they are found, which is that of the block
  DenseSet<std::pair<Operation *, int>> found;
  llvm::DenseMap<std::pair<Operation *, int>, Operation *> again; // by phase, views too
  llvm::MapVector<Operation *, SmallVector<Operation *>> clones;
  llvm::StringMap<SmallVector<Operation *>> gathers; // by variable
};

// Operators before those that read them.
void Repeater::need(Value value, Operation *before, int phase) {
  Operation *def = viewed(value).getDefiningOp();
  if (!def || def->getBlock() != &phases.block || !chosen.contains(def) || phases.phaseOf(def) == phase ||
      !found.insert({def, phase}).second)
    return;
  for (Value operand : def->getOperands())
    need(operand, before, phase);
  runs.push_back({def, before});
}

// Whether a variable that the operator reads has another value where it would run again.
bool Repeater::readsWritten(const Run &run) const {
  int64_t at = phases.positionOf(run.before);
  return llvm::any_of(run.op->getOperands(), [&](Value operand) {
    auto read = viewed(operand).getDefiningOp<nn::ReadOp>();
    return read && llvm::any_of(hazards.writers(read.getVariable()),
                                [&](Operation *writer) { return phases.positionOf(writer) < at; });
  });
}

void Repeater::findRuns() {
  while (true) {
    runs.clear();
    found.clear();
    for (Operation *op : phases.ops)
      if (int phase = phases.phaseOf(op); !phases.isForward[phase] && !isView(op))
        op->walk([&](Operation *inner) {
          for (Value operand : inner->getOperands())
            need(operand, op, phase);
        });
    SmallVector<Operation *> written;
    for (const Run &run : runs)
      if (readsWritten(run))
        written.push_back(run.op);
    if (written.empty())
      return;
    for (Operation *op : written)
      chosen.erase(op);
  }
}

// What a value is in a phase behind its own; views of what is made again are made again.
Value Repeater::mapped(Value value, int phase) {
  Operation *def = value.getDefiningOp();
  if (!def || def->getBlock() != &phases.block)
    return value;
  auto index = cast<OpResult>(value).getResultNumber();
  if (auto it = again.find({def, phase}); it != again.end())
    return it->second->getResult(index);
  if (!isView(def))
    return value;
  Value source = mapped(def->getOperand(0), phase);
  if (source == def->getOperand(0))
    return value;
  Operation *view = b.clone(*def);
  view->setOperand(0, source);
  again[{def, phase}] = view;
  return view->getResult(index);
}

// Where the forward has gathered `value`, or what it is a view of, of a variable, and the phase does so too,
// its own is taken: the parameter need not stay whole from one to the other. The gather may have to be done
// earlier than before, in front of `before`.
void Repeater::findGather(Value value, int phase, Operation *before) {
  Value whole = viewed(value);
  Operation *def = whole.getDefiningOp();
  if (!def || def->getBlock() != &phases.block || phases.phaseOf(def) == phase ||
      again.contains({def, phase}) || !dist::collectiveOf(whole))
    return;
  StringRef variable = variableBehind(whole);
  if (variable.empty() || llvm::any_of(hazards.writers(variable), [&](Operation *writer) {
        return phases.positionOf(writer) < phases.positionOf(before);
      }))
    return;
  for (Operation *op : gathers[variable])
    if (phases.phaseOf(op) == phase &&
        isSameValue(op->getResult(0), whole, [](Value same) { return same; })) {
      if (before->isBeforeInBlock(op))
        bringForward(op, before, phase);
      again[{def, phase}] = op;
      return;
    }
}

// Moves a gather of a variable, with all that it gathers from the read on. It starts behind the collective
// that starts before it now.
void Repeater::bringForward(Operation *gather, Operation *before, int phase) {
  Operation *place = before;
  if (isa<dist::CollectiveWaitOp>(gather))
    for (Operation *op = before->getPrevNode(); op && !isa<dist::CollectiveStartOp>(op);
         op = op->getPrevNode()) {
      if (auto it = phases.phases.find(op); it != phases.phases.end() && it->second != phase)
        break;
      place = op;
    }
  SmallVector<Operation *> chain;
  Operation *op = gather->getOperand(0).getDefiningOp();
  for (; op && before->isBeforeInBlock(op);
       op = op->getNumOperands() ? op->getOperand(0).getDefiningOp() : nullptr)
    chain.push_back(op);
  if (op && op->getBlock() == &phases.block && !op->isBeforeInBlock(place))
    place = op->getNextNode();
  for (Operation *each : llvm::reverse(chain))
    each->moveBefore(place);
  gather->moveBefore(before);
}

void Repeater::emit() {
  for (Operation *op : phases.ops)
    if (isa<dist::CollectiveWaitOp, dist::CollectiveOp>(op))
      if (StringRef variable = variableBehind(op->getResult(0)); !variable.empty())
        gathers[variable].push_back(op);

  const Run *next = runs.begin();
  for (Operation *op : phases.ops) {
    int phase = phases.phaseOf(op);
    if (phases.isForward[phase] || isView(op))
      continue;
    b.setInsertionPoint(op);
    for (; next != runs.end() && next->before == op; ++next) {
      for (Value operand : next->op->getOperands())
        findGather(operand, phase, op);
      SmallVector<Value> operands =
          llvm::map_to_vector(next->op->getOperands(), [&](Value v) { return mapped(v, phase); });
      Operation *clone = b.clone(*next->op);
      clone->setOperands(operands);
      again[{next->op, phase}] = clone;
      clones[next->op].push_back(clone);
    }
    op->walk([&](Operation *inner) {
      for (OpOperand &operand : inner->getOpOperands())
        operand.set(mapped(operand.get(), phase));
    });
  }
}

void Repeater::eraseDead() {
  for (Operation *op : llvm::reverse(phases.ops)) {
    if (!op->use_empty() || !(isView(op) || clones.contains(op)))
      continue;
    if (auto *it = clones.find(op); it != clones.end()) {
      // The first run is the only one, or that which others run again.
      SmallVector<Operation *> rest(llvm::drop_begin(it->second));
      Operation *first = it->second.front();
      clones.erase(it);
      clones[first] = rest;
    }
    op->erase();
  }
}

Repeats Repeater::name(llvm::StringMap<int> &names) {
  Repeats repeats;
  for (auto &[op, runs] : clones) {
    if (runs.empty())
      continue;
    StringRef kind = op->getName().stripDialect();
    auto name = b.getStringAttr(kind + "_" + Twine(names[kind]++));
    dist::kRepeated.set(op, name);
    for (Operation *run : runs) {
      dist::kRecompute.set(run, name);
      ++repeats.operators;
      repeats.flops += nn::workOf(run).flops;
      for (Value value : run->getResults())
        if (!value.use_empty()) {
          ++repeats.values;
          repeats.bytes += dist::bytesOf(value.getType());
        }
    }
  }
  return repeats;
}

Repeats Repeater::run(llvm::StringMap<int> &names, const llvm::DenseMap<Value, ValueName> &known) {
  findRuns();
  llvm::SetVector<Value> made; // each once, also where several phases make it again
  for (const Run &run : runs)
    made.insert_range(run.op->getResults());
  std::vector<std::string> ran;
  for (Value value : made)
    ran.push_back(known.lookup(value).own);
  emit();
  eraseDead();
  Repeats repeats = name(names);
  repeats.names = std::move(ran);
  return repeats;
}

double flopsOf(Block &block) {
  double flops = 0;
  for (Operation &op : block.without_terminator())
    if (auto loop = dyn_cast<dist::LoopOp>(op))
      flops += flopsOf(*loop.getBody()) * double(loop.getTimes());
    else if (isa<exec::ApplyOp, nn::LibraryOpInterface>(op) && !isView(&op))
      flops += nn::workOf(&op).flops;
  return flops;
}

} // namespace

// Without cuts.
static std::vector<Forward> allForwards(func::FuncOp func, int64_t threads) {
  dist::Machine machine = dist::Machine::of(func);
  std::vector<Forward> forwards;
  bool repeats = func.walk([](Operation *op) {
                       return dist::kRecompute.isOn(op) ? WalkResult::interrupt() : WalkResult::advance();
                     })
                     .wasInterrupted();
  if (repeats)
    return forwards;
  func.walk([&](Block *block) {
    if (!isa<func::FuncOp, dist::LoopOp>(block->getParentOp()))
      return;
    Phases phases(*block);
    if (phases.isForward.size() < 2)
      return;
    int64_t size = phases.ops.size();
    for (int64_t begin = 0, end = 0; begin < size; begin = end) {
      int phase = phases.phaseOf(phases.ops[begin]);
      Forward forward;
      for (; end < size && phases.phaseOf(phases.ops[end]) == phase; ++end)
        if (phases.isForward[phase]) {
          forward.ops.push_back(phases.ops[end]);
          forward.trace.push_back(traceOf(phases.ops[end], phases, begin));
          forward.trace.back().seconds = secondsOf(phases.ops[end], machine, threads);
        }
      forwards.push_back(std::move(forward));
    }
  });
  return forwards;
}

std::vector<Forward> tessera::findForwards(func::FuncOp func, int64_t threads) {
  std::vector<Forward> forwards;
  for (Forward &forward : allForwards(func, threads)) {
    forward.cuts = recompute::chooseCuts(forward.trace);
    if (!forward.cuts.positions.empty())
      forwards.push_back(std::move(forward));
  }
  return forwards;
}

DenseSet<Operation *> tessera::findRepeatable(func::FuncOp func) {
  DenseSet<Operation *> found;
  for (const Forward &forward : allForwards(func, /*threads=*/1))
    for (auto [op, traced] : llvm::zip(forward.ops, forward.trace))
      if (traced.repeatable && !isView(op))
        found.insert(op);
  return found;
}

// The operators of a repetition, in the first quarters of each forward's parts.
static DenseSet<Operation *> choose(ArrayRef<Forward> forwards, const Repetition &repetition) {
  DenseSet<Operation *> chosen;
  for (const Forward &forward : forwards) {
    int64_t parts = llvm::divideCeil(int64_t(forward.cuts.positions.size()) * repetition.quarters, 4);
    std::vector<bool> repeated = recompute::repeated(forward.trace, forward.cuts, parts, repetition.price);
    for (auto [op, again] : llvm::zip(forward.ops, repeated))
      if (again && !isView(op))
        chosen.insert(op);
  }
  return chosen;
}

static std::vector<double> priceLevels(ArrayRef<Forward> forwards) {
  std::vector<recompute::Operator> operators;
  for (const Forward &forward : forwards)
    for (auto [op, traced] : llvm::zip(forward.ops, forward.trace))
      if (traced.repeatable && !isView(op))
        operators.push_back(traced);
  return recompute::priceLevels(operators);
}

void tessera::forEachRepetition(func::FuncOp func, int64_t threads,
                                llvm::function_ref<TryNext(const Repetition &, const Repeats &)> fn,
                                ArrayRef<int64_t> quarters) {
  std::set<size_t> sizes; // of what was tried: a set with as many operators as another is nearly the same
  std::set<std::pair<int64_t, int64_t>> made; // and so is what comes of it, with as many bytes made again
  for (double price : priceLevels(findForwards(func, threads)))
    for (int64_t count : quarters) {
      Repetition repetition{price, count};
      DenseSet<Operation *> chosen = choose(findForwards(func, threads), repetition);
      if (chosen.empty() || !sizes.insert(chosen.size()).second)
        continue;
      std::function<void()> undo = undoOf(func);
      Repeats repeats = repeatOperators(func, chosen);
      TryNext next = TryNext::MoreQuarters;
      if (repeats.operators && made.insert({repeats.operators, repeats.bytes}).second)
        next = fn(repetition, repeats);
      undo();
      if (next == TryNext::Nothing)
        return;
      if (next == TryNext::NextPrice)
        break;
    }
}

Repeats tessera::repeatOperators(func::FuncOp func, int64_t threads, const Repetition &repetition) {
  return repeatOperators(func, choose(findForwards(func, threads), repetition));
}

void Repeats::operator+=(const Repeats &other) {
  operators += other.operators;
  values += other.values;
  bytes += other.bytes;
  flops += other.flops;
  names.insert(names.end(), other.names.begin(), other.names.end());
}

Repeats tessera::repeatOperators(func::FuncOp func, DenseSet<Operation *> chosen) {
  Repeats repeats;
  repeats.flopsOfAll = flopsOf(func.getBody().front());
  llvm::StringMap<int> names;
  llvm::DenseMap<Value, ValueName> known = valueNames(func);
  SmallVector<Block *> blocks;
  func.walk([&](Block *block) { blocks.push_back(block); });
  for (Block *block : blocks)
    if (llvm::any_of(*block, [&](Operation &op) { return chosen.contains(&op); }))
      repeats += Repeater(*block, chosen).run(names, known);
  // Counted anew: what runs again in a loop does so in each round.
  repeats.flops = flopsOf(func.getBody().front()) - repeats.flopsOfAll;
  return repeats;
}

std::string tessera::describe(const Repeats &repeats) {
  double more = repeats.flopsOfAll > 0 ? 100 * repeats.flops / repeats.flopsOfAll : 0;
  return llvm::formatv("{0} of activations ({1} values) are made again, +{2:f1} % operations",
                       sizeText(repeats.bytes), repeats.values, more);
}

std::function<void()> tessera::undoOf(func::FuncOp func) {
  auto before = std::make_shared<OwningOpRef<func::FuncOp>>(func.clone());
  return [=]() mutable { func.getBody().takeBody((*before)->getBody()); };
}
