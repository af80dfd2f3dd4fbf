// See TierTrace.h.
#include "passes/Schedule/TierTrace.h"
#include "dialects/dist/Attributes.h"
#include "dialects/dist/CollectiveSize.h"
#include "dialects/nn/Work.h"
#include "mlir/IR/Matchers.h"
#include "passes/Memory/Liveness.h"
#include "passes/Schedule/Stored.h"
#include "runtime/machine/host_work.h"

using namespace mlir;
using namespace tessera;

// The bytes of a tier that are live while each of the operators runs; of a closed loop, at its fullest.
static std::vector<int64_t> liveBytes(Block &block, const Storage &storage, Tier tier, int64_t variables,
                                      ArrayRef<Operation *> ops) {
  const Liveness &positions = storage.positions();
  std::vector<int64_t> live, all = storage.liveBytes(tier);
  int64_t at = 0;
  for (auto [i, op] : llvm::enumerate(ops)) {
    bool isOpen = i + 1 < ops.size() && ops[i + 1]->getParentOp() == op;
    bool endsLoop = op->getBlock() != &block && op->hasTrait<OpTrait::IsTerminator>();
    int64_t end = isOpen ? positions.start(op) : positions.end(endsLoop ? op->getParentOp() : op), most = 0;
    for (; at <= end; ++at)
      most = std::max(most, variables + all[at]);
    live.push_back(most);
  }
  return live;
}

// The loop of a block that takes longest, which is the only one that programs have.
static dist::LoopOp longestLoop(Block &block, const dist::Machine &machine, int64_t threads) {
  dist::LoopOp longest;
  for (auto loop : block.getOps<dist::LoopOp>())
    if (!longest || secondsOf(loop, machine, threads) > secondsOf(longest, machine, threads))
      longest = loop;
  return longest;
}

double tessera::secondsOf(Operation *op, const dist::Machine &machine, int64_t threads) {
  if (auto loop = dyn_cast<dist::LoopOp>(op)) {
    double once = 0;
    for (Operation &inner : loop.getBody()->without_terminator())
      once += secondsOf(&inner, machine, threads);
    return once * double(loop.getTimes());
  }
  if (auto collective = dyn_cast<dist::CollectiveOp>(op))
    return machine.links
        .collective(collective.getKind(), dist::collectiveSize(collective).bytes(),
                    collective.getAxes().getAxes())
        .seconds;
  if (!isa<exec::ApplyOp, nn::LibraryOpInterface>(op) || isView(op))
    return 0;
  return machine.rates.seconds(nn::workOf(op), threads);
}

double tessera::secondsOnHost(StringRef function, int64_t count, const dist::Machine &machine) {
  return rt::hostUpdates(std::string_view(function), double(count)) / machine.update;
}

TierTrace::TierTrace(func::FuncOp func, const Storage &storage, const VariablePlaces &places, int64_t threads,
                     Chooser choose, Tier tier, bool opensLoop)
    : tier(tier), block(&func.getBody().front()), alignment(storage.alignment(tier)) {
  dist::Machine machine = dist::Machine::of(func);
  dist::LoopOp open = opensLoop ? longestLoop(*block, machine, threads) : nullptr;
  auto addOperator = [&](Operation &op, double seconds) {
    positions[&op] = ops.size();
    ops.push_back(&op);
    step.seconds.push_back(seconds);
  };
  for (Operation &op : block->without_terminator()) {
    addOperator(op, &op == open ? 0 : secondsOf(&op, machine, threads));
    if (&op != open)
      continue;
    body = open.getBody();
    auto times = int64_t(open.getTimes());
    step.loop = {int64_t(ops.size()) - 1, -1, times};
    for (Operation &inner : *body)
      addOperator(inner, secondsOf(&inner, machine, threads) * double(times));
    step.loop.end = int64_t(ops.size()) - 1;
  }
  positions[block->getTerminator()] = ops.size();
  step.bytes = liveBytes(*block, storage, tier, places.end(func, tier), ops);
  bool isDevice = tier == Tier::Device;
  isDevice ? addVariables(storage, choose) : addCopiedVariables(storage, choose);
  if (choose(nullptr, "activations") != Stays)
    isDevice ? addActivations(storage) : addCopies(storage);
  if (isDevice) {
    addUpdates(storage);
    addConversions(storage);
  }
}

StringRef TierTrace::categoryOf(nn::VariableOp variable) {
  return variable.getRole() == "optimizer" ? "optimizer" : "parameters";
}

int64_t TierTrace::positionOf(Operation *op) const {
  while (op && op->getBlock() != block && op->getBlock() != body)
    op = op->getParentOp();
  auto it = positions.find(op);
  return it == positions.end() ? -1 : it->second;
}

// Where the operator's results are there: a loop's at its end.
int64_t TierTrace::madeAt(Operation *op) const {
  int64_t position = positionOf(op);
  return position == step.loop.begin ? step.loop.end : position;
}

bool TierTrace::isOutside(Value value) const { return value.getParentBlock() != body; }

// Whether the value becomes one that the loop carries.
bool TierTrace::isCarried(Value value) const {
  return value.getParentBlock() == body && llvm::any_of(value.getUsers(), [&](Operation *user) {
           return user == body->getTerminator() || (isView(user) && isCarried(user->getResult(0)));
         });
}

// Where the value and its views are read. What a collective has begun with it reads until it is waited for.
void TierTrace::addUses(Value value, std::map<int64_t, bool> &uses) const {
  for (Operation *user : value.getUsers()) {
    if (isView(user)) {
      addUses(user->getResult(0), uses);
      continue;
    }
    int64_t first = positionOf(user), last = first;
    if (user->getNumResults() == 1 &&
        isa<dist::TokenType, dist::TransferType, dist::HostCallType>(user->getResult(0).getType()))
      for (Operation *wait : user->getResult(0).getUsers())
        last = std::max(last, positionOf(wait));
    for (int64_t position = first; position <= last; ++position)
      uses.try_emplace(position, false);
  }
}

tiers::Value &TierTrace::add(Traced what, int64_t bytes, const std::map<int64_t, bool> &uses) {
  traced.push_back(what);
  tiers::Value &value = step.values.emplace_back();
  value.bytes = llvm::alignTo(bytes, alignment);
  if (what.variable)
    value.kind = what.variable.getRole() == "optimizer" ? tiers::Kind::Optimizer : tiers::Kind::Parameter;
  const tiers::Loop &loop = step.loop;
  bool isOutside = what.variable || this->isOutside(what.value);
  for (auto [position, writes] : uses)
    (isOutside && loop.has(position) && position < loop.end ? value.inLoop : value.uses)
        .push_back({position, writes});
  if (value.inLoop.empty())
    return value;
  // There from the beginning of the loop to its end, unless it comes up in each turn.
  auto behind = llvm::find_if(value.uses, [&](const tiers::Use &use) { return use.position >= loop.begin; });
  bool begins = behind != value.uses.end() && behind->position == loop.begin; // is one of the first values
  if (begins)
    behind = value.uses.erase(behind);
  value.loopGap = int(behind - value.uses.begin());
  value.uses.insert(behind, {{loop.begin, false}, {loop.end, false}});
  if (begins)
    value.inLoop.clear();
  return value;
}

// A variable's values are what is read of it and what becomes of it; they end with its assignment.
void TierTrace::addVariables(const Storage &storage, Chooser choose) {
  llvm::MapVector<Operation *, std::map<int64_t, bool>> uses;
  for (Operation *op : ops) {
    if (auto read = dyn_cast<nn::ReadOp>(op)) {
      nn::VariableOp variable = storage.buffers()[storage.of(read)].variable;
      addUses(read, uses[variable]);
    } else if (auto assign = dyn_cast<nn::AssignOp>(op)) {
      const Storage::Buffer &buffer = storage.buffers()[storage.ofVariable(assign.getVariable())];
      nn::VariableOp variable = buffer.variable;
      Value made = assign.getValue();
      while (made.getDefiningOp() && isView(made.getDefiningOp()))
        made = made.getDefiningOp()->getOperand(0);
      Operation *def = made.getDefiningOp();
      // Where it is made elsewhere and copied, that is the write.
      bool inPlace = def && storage.has(made) && storage.of(made) == storage.ofVariable(assign.getVariable());
      Operation *writer = inPlace ? def : op;
      int64_t last = positionOf(writer), first = last;
      if (auto wait = dyn_cast<dist::CollectiveWaitOp>(writer))
        first = positionOf(wait.getToken().getDefiningOp());
      std::map<int64_t, bool> &of = uses[variable];
      for (int64_t position = first; position <= last; ++position)
        of[position] = true;
      if (!inPlace)
        continue;
      std::map<int64_t, bool> after;
      addUses(made, after);
      after.erase(positionOf(op)); // which computes nothing
      // What reads the new value has it where it was made.
      for (int64_t position = last + 1; !after.empty() && position <= after.rbegin()->first; ++position)
        of[position] = of[position];
    }
  }
  int64_t end = ops.size();
  for (auto &[op, of] : uses) {
    auto variable = cast<nn::VariableOp>(op);
    Choice choice = choose(variable, categoryOf(variable));
    if (choice != Stays && !of.empty() && !of.count(end))
      addVariable(variable, choice, of);
  }
}

void TierTrace::addVariable(nn::VariableOp variable, Choice choice, const std::map<int64_t, bool> &uses) {
  tiers::Value &value = add({variable, Value()}, VariablePlaces::bytes(variable), uses);
  value.rests = true;
  value.below = choice == MustMove;
  // The trace is of a program that has everything in its tier.
  if (dist::restsIn(variable) != tier)
    for (int64_t &bytes : step.bytes)
      bytes += value.bytes;
}

// Where the transfer that brings a copy starts, and where it is waited for.
std::pair<int64_t, int64_t> TierTrace::arrival(Value copy) const {
  Operation *wait = copy.getDefiningOp();
  return {positionOf(wait->getOperand(0).getDefiningOp()), positionOf(wait)};
}

// Of a variable that rests on the host: what is fetched of it, and the offload of its new value.
void TierTrace::addCopiedVariables(const Storage &storage, Chooser choose) {
  llvm::MapVector<Operation *, std::map<int64_t, bool>> uses;
  for (Operation *op : ops)
    if (auto read = dyn_cast<dist::ReadCopyOp>(op)) {
      addUses(read, uses[storage.buffers()[storage.of(read)].variable]);
    } else if (auto assign = dyn_cast<dist::AssignCopyOp>(op)) {
      std::map<int64_t, bool> &of =
          uses[storage.buffers()[storage.ofVariable(assign.getVariable())].variable];
      auto [first, last] = arrival(assign.getValue());
      for (int64_t position = first; position <= last; ++position)
        of[position] = true;
      std::map<int64_t, bool> after;
      addUses(assign.getValue(), after);
      for (auto [position, writes] : after)
        if (position != positionOf(op)) // which moves nothing
          of.try_emplace(position, writes);
    }
  for (auto &[op, of] : uses) {
    auto variable = cast<nn::VariableOp>(op);
    if (Choice choice = choose(variable, categoryOf(variable)); choice != Stays && !of.empty())
      addVariable(variable, choice, of);
  }
}

// What offloads bring that becomes no variable.
void TierTrace::addCopies(const Storage &storage) {
  for (Operation *op : ops) {
    auto wait = dyn_cast<dist::OffloadWaitOp>(op);
    if (!wait || cast<dist::CopyType>(wait.getResult().getType()).getTier() != tier)
      continue;
    bool becomesCopy = llvm::any_of(wait.getResult().getUsers(), llvm::IsaPred<dist::AssignCopyOp>);
    std::map<int64_t, bool> uses;
    auto [first, last] = arrival(wait.getResult());
    for (int64_t position = first; position <= last; ++position)
      uses[position] = position == first;
    addUses(wait.getResult(), uses);
    bool hasGap = uses.rbegin()->first - uses.begin()->first + 1 > int64_t(uses.size());
    if (hasGap && !becomesCopy && !isCarried(wait.getResult()))
      add({nn::VariableOp(), wait.getResult()}, storage.buffers()[storage.of(wait.getResult())].bytes, uses);
  }
}

void TierTrace::addActivations(const Storage &storage) {
  DenseSet<int> wholes;
  for (const Storage::Buffer &buffer : storage.buffers())
    if (buffer.whole >= 0)
      wholes.insert(buffer.whole);
  int64_t end = ops.size();
  for (Operation *op : ops) {
    if (isView(op) || isa<nn::ReadOp, dist::PackOp, exec::OwnOp>(op) ||
        (isa<dist::LoopOp>(op) && op->getBlock() == block && !(body && op == body->getParentOp())))
      continue;
    for (Value value : op->getResults()) {
      if (!isa<RankedTensorType>(value.getType()) || !storage.has(value))
        continue;
      const Storage::Buffer &buffer = storage.buffers()[storage.of(value)];
      if (buffer.whole >= 0 || buffer.variable || buffer.tier != Tier::Device ||
          wholes.contains(storage.of(value)))
        continue;
      if (isa<dist::LoopOp>(op) && addSum(cast<OpResult>(value), storage))
        continue;
      std::map<int64_t, bool> uses;
      addUses(value, uses);
      uses.try_emplace(madeAt(op), false);
      bool hasGap = false;
      for (auto it = uses.begin(); it != uses.end(); ++it)
        hasGap |= std::next(it) != uses.end() && std::next(it)->first > it->first + 1;
      // Outputs stay, and so does what becomes a variable, which moves as such.
      if (hasGap && !becomesVariable(value) && !isCarried(value) && !uses.count(end))
        add({nn::VariableOp(), value}, buffer.bytes, uses);
    }
  }
}

static Value rootOf(Value value) {
  while (value.getDefiningOp() && isView(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

// What the loop carries and each turn changes in place, zeros at first: it is there from the loop's
// beginning, or comes up in each turn. False for what else a loop yields.
bool TierTrace::addSum(OpResult result, const Storage &storage) {
  auto loop = cast<dist::LoopOp>(result.getOwner());
  unsigned number = result.getResultNumber();
  Value carried = loop.getCarried()[number], next = rootOf(body->getTerminator()->getOperand(number));
  Operation *writer = next.getDefiningOp();
  auto zeros = loop.getInits()[number].getDefiningOp<nn::ConstantOp>();
  auto type = cast<RankedTensorType>(result.getType());
  if (!zeros || !matchPattern(zeros.getResult(), m_PosZeroFloat()) || !writer || writer->getBlock() != body ||
      storage.of(next) != storage.of(carried))
    return false;
  std::map<int64_t, bool> uses, after;
  addUses(carried, uses);
  addUses(next, after);
  after.erase(step.loop.end);
  // What reads the new value has it where it was made.
  int64_t written = positionOf(writer), last = after.empty() ? written : after.rbegin()->first;
  for (int64_t position = written; position <= last; ++position)
    uses[position] = position == written;
  addUses(result, uses);
  if (uses.count(step.loop.end) || uses.count(int64_t(ops.size())) ||
      llvm::any_of(ValueRange{carried, next, result}, becomesVariable))
    return false;
  tiers::Value &value = add({nn::VariableOp(), result}, storage.buffers()[storage.of(result)].bytes, uses);
  value.zeros = int(step.conversions.size());
  conversions.push_back({{}, type});
  tiers::Conversion &made = step.conversions.emplace_back();
  made.results = {int(traced.size()) - 1};
  made.seconds = secondsOnHost("fill", type.getNumElements(), dist::Machine::of(block->getParentOp()));
  return true;
}

int TierTrace::find(nn::VariableOp variable) const {
  const auto *it = llvm::find_if(traced, [&](const Traced &each) { return each.variable == variable; });
  return variable && it != traced.end() ? int(it - traced.begin()) : -1;
}

// The value of the trace that a gradient or a conversion is: one that stays where it is none yet.
std::optional<int> TierTrace::findOrAdd(Value value, const Storage &storage) {
  const auto *it = llvm::find_if(traced, [&](const Traced &each) { return each.value == value; });
  if (it != traced.end())
    return int(it - traced.begin());
  if (!value.getDefiningOp() || !storage.has(value) || storage.buffers()[storage.of(value)].variable)
    return std::nullopt;
  std::map<int64_t, bool> uses;
  addUses(value, uses);
  uses.try_emplace(madeAt(value.getDefiningOp()), false);
  if (uses.count(ops.size()))
    return std::nullopt;
  // Of a pack the others may stay longer: then the device has more than this says.
  add({nn::VariableOp(), value}, storage.buffers()[storage.of(value)].bytes, uses).decided = true;
  return int(traced.size()) - 1;
}

// Updates that the library makes, of variables that may move, which become what the update yields.
void TierTrace::addUpdates(const Storage &storage) {
  dist::Machine machine = dist::Machine::of(block->getParentOp());
  auto updatedBy = [&](Value operand, Value result) {
    auto read = rootOf(operand).getDefiningOp<nn::ReadOp>();
    while (result.hasOneUse() && isView(*result.user_begin()))
      result = (*result.user_begin())->getResult(0);
    auto assign = result.hasOneUse() ? dyn_cast<nn::AssignOp>(*result.user_begin()) : nn::AssignOp();
    bool isSame = read && assign && read.getVariableAttr() == assign.getVariableAttr();
    return isSame ? find(storage.buffers()[storage.of(read)].variable) : -1;
  };
  for (Operation *op : ops) {
    auto update = dyn_cast<nn::UpdateOp>(op);
    const nn::LibraryCall *call = update ? storage.callOf(op) : nullptr;
    Value norm = update ? rootOf(update.getNorm()) : Value();
    if (!call || call->workspace > 0 || !storage.has(norm))
      continue;
    tiers::Update traced;
    traced.position = positionOf(op);
    traced.parameter = updatedBy(update.getParameter(), update.getUpdated());
    bool mayMove = traced.parameter >= 0;
    for (auto [state, result] : llvm::zip(update.getState(), update.getNewState())) {
      traced.state.push_back(updatedBy(state, result));
      mayMove &= traced.state.back() >= 0;
    }
    if (!mayMove)
      continue;
    std::optional<int> gradient = findOrAdd(rootOf(update.getGradient()), storage);
    // Of parameters that have one gradient, the biases of two branches that are added, one may be updated
    // below: there the gradient ends.
    if (!gradient || llvm::any_of(step.updates, [&](auto &other) { return other.gradient == *gradient; }))
      continue;
    traced.gradient = *gradient;
    if (Operation *by = norm.getDefiningOp()) {
      step.norm = std::max(step.norm, positionOf(by) + 1);
      traced.ready = positionOf(by) + 1;
    }
    for (const tiers::Use &use : step.values[traced.parameter].uses)
      if (use.position != traced.position)
        traced.ready = std::max(traced.ready, use.position + 1);
    traced.seconds = secondsOnHost(
        call->function, cast<RankedTensorType>(update.getParameter().getType()).getNumElements(), machine);
    step.updates.push_back(traced);
    updates.push_back({update, *call});
  }
}

// Kernels that convert a parameter and do nothing else; those of one parameter to one type are one
// conversion, which may run again for the backward.
void TierTrace::addConversions(const Storage &storage) {
  dist::Machine machine = dist::Machine::of(block->getParentOp());
  for (Operation *op : ops) {
    auto apply = dyn_cast<exec::ApplyOp>(op);
    auto read = apply && apply.getConverts() ? rootOf(apply.getOperands().front()).getDefiningOp<nn::ReadOp>()
                                             : nn::ReadOp();
    int parameter = read ? find(storage.buffers()[storage.of(read)].variable) : -1;
    // What is made inside of a pack comes up nowhere else.
    if (parameter < 0 || storage.buffers()[storage.of(apply.getResult(0))].whole >= 0)
      continue;
    std::optional<int> result = findOrAdd(apply.getResult(0), storage);
    if (!result || step.values[*result].uses.size() < 2)
      continue;
    auto type = cast<RankedTensorType>(apply.getResult(0).getType());
    size_t at = 0;
    while (at < conversions.size() &&
           (step.conversions[at].parameter != parameter || conversions[at].type != type))
      ++at;
    if (at == conversions.size()) {
      conversions.push_back({{}, type});
      tiers::Conversion &made = step.conversions.emplace_back();
      made.parameter = parameter;
      made.seconds = secondsOnHost("convert", type.getNumElements(), machine);
    }
    conversions[at].ops.push_back(apply);
    step.conversions[at].positions.push_back(positionOf(op));
    step.conversions[at].results.push_back(*result);
  }
}
