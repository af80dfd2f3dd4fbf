// See Transfers.h.
#include "passes/Schedule/Transfers.h"
#include "passes/Schedule/Sizes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tessera;

namespace {

// One tier further down, and up.
dist::CopyType below(Type type) {
  if (auto copy = dyn_cast<dist::CopyType>(type))
    return dist::CopyType::get(type.getContext(), copy.getTensor(), Tier::Nvme);
  return dist::CopyType::get(type.getContext(), cast<RankedTensorType>(type), Tier::Host);
}
Type above(dist::CopyType copy) {
  if (copy.getTier() == Tier::Host)
    return copy.getTensor();
  return dist::CopyType::get(copy.getContext(), copy.getTensor(), Tier::Host);
}

// What a variable becomes by an assignment of either kind.
Value assigned(Operation *assign) {
  if (auto copied = dyn_cast<dist::AssignCopyOp>(assign))
    return copied.getValue();
  return cast<nn::AssignOp>(assign).getValue();
}

// What the loop carries on to the next turn, and has at the end as `sum`.
OpOperand &carriedOn(OpResult sum) {
  Operation *yield = cast<dist::LoopOp>(sum.getOwner()).getBody()->getTerminator();
  return yield->getOpOperand(sum.getResultNumber());
}

class TransferEmitter {
public:
  TransferEmitter(const TierTrace &trace, const tiers::HostPlaces &host)
      : trace(trace), host(host), block(trace.ops.front()->getBlock()), b(block->getTerminator()) {}

  int64_t run(ArrayRef<tiers::Move> moves);

private:
  // What a value that moves is at the moment: in its tier, below, or under way.
  struct Moving {
    SmallVector<Value> now; // of a variable all reads of it
    Value copy, transfer;
    Value call;                  // that makes the copy
    Operation *assign = nullptr; // nn.assign, or dist.assign_copy
    OpResult sum;                // of the loop that carries it as a copy,
    Value behind;                // and what stands for it behind the loop until it has come up
    int64_t written = -1;        // where the variable's new value is made, or the sum's in a turn
  };

  Moving &find(int index);
  void insertAt(int64_t position) {
    position < int64_t(trace.ops.size()) ? b.setInsertionPoint(trace.ops[position])
                                         : b.setInsertionPoint(block->getTerminator());
  }
  Value current(Moving &moving, int64_t position);
  void startOffload(Moving &moving, int64_t position);
  void endOffload(Moving &moving);
  void startPrefetch(Moving &moving);
  void endPrefetch(Moving &moving, int64_t position);
  bool isReadFrom(Value value, int64_t position) const;
  void replaceFrom(Value old, Value arrived, int64_t position);
  void eraseDead(Block &in);
  Value shared(Value value);
  SmallVector<int> conversionsInOrder() const;
  Value startHost(Location loc, StringRef function, Type made, ValueRange sources,
                  ArrayRef<NamedAttribute> settings);
  void startConversion(int number);
  void startZeros(int number);
  void endConversion(Moving &moving);
  void carry(Moving &moving);
  void startUpdate(int number);
  void endUpdate(int number);
  void endUpdates();
  void assignBelow(int value, Value copy);

  const TierTrace &trace;
  const tiers::HostPlaces &host;
  Block *block;
  OpBuilder b;
  llvm::MapVector<int, Moving> values;
  // Of updates on the host.
  llvm::DenseMap<int, SmallVector<Value>> operands;       // as they were, by number of the update
  llvm::DenseMap<Value, std::pair<Value, Value>> numbers; // that they need: transfers and copies
  llvm::MapVector<int, Value> calls;                      // by number of the update; null when done
  SmallVector<std::pair<int, Value>> updated;             // variables, and what they become
  DenseSet<Operation *> converted;                        // conversions that the host makes
  int64_t count = 0;
};

TransferEmitter::Moving &TransferEmitter::find(int index) {
  auto [it, isNew] = values.try_emplace(index);
  Moving &moving = it->second;
  nn::VariableOp variable = trace.traced[index].variable;
  if (!isNew)
    return moving;
  if (!variable) {
    moving.now = {trace.traced[index].value};
    return moving;
  }
  auto name = FlatSymbolRefAttr::get(variable.getSymNameAttr());
  for (Operation *op : trace.ops)
    llvm::TypeSwitch<Operation *>(op)
        .Case<nn::ReadOp, dist::ReadCopyOp>([&](auto read) {
          if (read.getVariableAttr() == name)
            moving.now.push_back(read.getResult());
        })
        .Case<nn::AssignOp, dist::AssignCopyOp>([&](auto assign) {
          if (assign.getVariableAttr() == name)
            moving.assign = assign;
        });
  for (const tiers::Use &use : trace.step.values[index].uses)
    if (use.writes)
      moving.written = use.position;
  b.setInsertionPointToStart(block);
  Value any = moving.now.empty() ? assigned(moving.assign) : moving.now.front();
  moving.copy = dist::ReadCopyOp::create(b, variable.getLoc(), below(any.getType()), name);
  return moving;
}

// What is there behind the operator before `position`.
Value TransferEmitter::current(Moving &moving, int64_t position) {
  if ((moving.assign || moving.sum) && moving.written >= 0 && moving.written < position) {
    // Made in another shape, perhaps: the reshape may stand further down.
    Value made = moving.sum ? carriedOn(moving.sum).get() : assigned(moving.assign);
    SmallVector<Operation *> views;
    for (Operation *def = made.getDefiningOp(); def && isView(def); def = def->getOperand(0).getDefiningOp())
      views.push_back(def);
    // Again, rather than moved: positions are places in the block.
    bool isMade = llvm::all_of(views, [&](Operation *view) { return trace.positionOf(view) < position; });
    if (isMade)
      return made;
    Value again = views.back()->getOperand(0);
    for (Operation *view : llvm::reverse(views)) {
      Operation *copy = b.clone(*view);
      copy->setOperand(0, again);
      again = copy->getResult(0);
    }
    return again;
  }
  return moving.now.front();
}

void TransferEmitter::startOffload(Moving &moving, int64_t position) {
  Value value = current(moving, position);
  dist::CopyType copy = below(value.getType());
  moving.transfer =
      dist::OffloadStartOp::create(b, value.getLoc(), dist::TransferType::get(b.getContext(), copy), value);
  ++count;
}

void TransferEmitter::endOffload(Moving &moving) {
  auto type = cast<dist::TransferType>(moving.transfer.getType()).getArrival();
  moving.copy = dist::OffloadWaitOp::create(b, moving.transfer.getLoc(), type, moving.transfer);
  if (!moving.sum)
    return;
  // Here ends the turn, for this value.
  carriedOn(moving.sum).set(moving.copy);
  moving.copy = moving.sum;
  moving.now = {moving.behind};
}

void TransferEmitter::startPrefetch(Moving &moving) {
  auto copy = cast<dist::CopyType>(moving.copy.getType());
  moving.transfer = dist::PrefetchStartOp::create(
      b, moving.copy.getLoc(), dist::TransferType::get(b.getContext(), above(copy)), moving.copy);
  ++count;
}

void TransferEmitter::endPrefetch(Moving &moving, int64_t position) {
  auto type = cast<dist::TransferType>(moving.transfer.getType()).getArrival();
  Value arrived = dist::PrefetchWaitOp::create(b, moving.transfer.getLoc(), type, moving.transfer);
  for (Value old : moving.now)
    replaceFrom(old, arrived, position);
  moving.now = {arrived};
}

// Whether an operator from `position` on reads the value or a view of it.
bool TransferEmitter::isReadFrom(Value value, int64_t position) const {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    return trace.positionOf(user) >= position || (isView(user) && isReadFrom(user->getResult(0), position));
  });
}

// Views that were made before are made again, of what has arrived.
void TransferEmitter::replaceFrom(Value old, Value arrived, int64_t position) {
  for (OpOperand &use : llvm::make_early_inc_range(old.getUses())) {
    Operation *user = use.getOwner();
    if (trace.positionOf(user) >= position) {
      use.set(arrived);
    } else if (isView(user) && isReadFrom(user->getResult(0), position)) {
      Operation *again = b.clone(*user);
      again->setOperand(0, arrived);
      replaceFrom(user->getResult(0), again->getResult(0), position);
    }
  }
}

// The copy of a number that updates on the host need; waited for where the first of them begins.
Value TransferEmitter::shared(Value value) {
  auto &[transfer, copy] = numbers[value];
  if (!copy) {
    auto type = cast<dist::TransferType>(transfer.getType()).getArrival();
    copy = dist::OffloadWaitOp::create(b, value.getLoc(), type, transfer);
  }
  return copy;
}

// Those of the host, in the order of need.
SmallVector<int> TransferEmitter::conversionsInOrder() const {
  SmallVector<std::pair<double, int>> order;
  for (auto [i, conversion] : llvm::enumerate(trace.step.conversions))
    if (conversion.onHost)
      order.push_back({trace.step.values[conversion.results.front()].made, int(i)});
  llvm::sort(order);
  return llvm::to_vector(llvm::make_second_range(order));
}

// A function that makes a copy of the type.
Value TransferEmitter::startHost(Location loc, StringRef function, Type made, ValueRange sources,
                                 ArrayRef<NamedAttribute> settings) {
  auto type = cast<RankedTensorType>(made);
  SmallVector<NamedAttribute> attrs(settings);
  attrs.push_back(b.getNamedAttr("count", b.getI64IntegerAttr(type.getNumElements())));
  attrs.push_back(b.getNamedAttr("dtype", b.getStringAttr(exec::dtypeName(type.getElementType()))));
  return dist::HostStartOp::create(b, loc, dist::HostCallType::get(b.getContext(), {below(type)}), function,
                                   sources, ArrayRef<int64_t>(), b.getDictionaryAttr(attrs));
}

void TransferEmitter::startConversion(int number) {
  const tiers::Conversion &conversion = trace.step.conversions[number];
  ArrayRef<exec::ApplyOp> ops = trace.conversions[number].ops;
  if (ops.empty())
    return startZeros(number);
  Value parameter = find(conversion.parameter).copy;
  Moving &moving = values[conversion.results.front()];
  moving.now.clear();
  for (exec::ApplyOp op : ops) {
    moving.now.push_back(op.getResult(0));
    converted.insert(op);
  }
  moving.call = startHost(exec::ApplyOp(ops.front()).getLoc(), "convert", trace.conversions[number].type,
                          parameter, {});
}

// What a sum begins with.
void TransferEmitter::startZeros(int number) {
  int index = trace.step.conversions[number].results.front();
  Moving &moving = values[index];
  moving.sum = cast<OpResult>(trace.traced[index].value);
  moving.call = startHost(carriedOn(moving.sum).get().getLoc(), "fill", moving.sum.getType(), {},
                          b.getNamedAttr("value", b.getF64FloatAttr(0)));
  for (const tiers::Use &use : trace.step.values[index].uses)
    if (use.writes)
      moving.written = use.position;
}

void TransferEmitter::endConversion(Moving &moving) {
  if (moving.copy)
    return;
  auto type = cast<dist::HostCallType>(moving.call.getType());
  moving.copy =
      dist::HostWaitOp::create(b, moving.call.getLoc(), type.getResults(), moving.call).getResult(0);
  if (moving.sum)
    carry(moving);
}

// The loop has it as a copy from here on. What reads it reads casts, until it has come up.
void TransferEmitter::carry(Moving &moving) {
  auto loop = cast<dist::LoopOp>(moving.sum.getOwner());
  unsigned number = moving.sum.getResultNumber();
  BlockArgument carried = loop.getCarried()[number];
  loop->setOperand(number, moving.copy);
  OpBuilder::InsertionGuard guard(b);
  auto lower = [&](Value value) {
    auto cast = UnrealizedConversionCastOp::create(b, value.getLoc(), value.getType(), value);
    value.replaceAllUsesExcept(cast.getResult(0), cast);
    value.setType(moving.copy.getType());
    return cast.getResult(0);
  };
  b.setInsertionPointToStart(loop.getBody());
  moving.now = {lower(carried)};
  b.setInsertionPointAfter(loop);
  moving.behind = lower(moving.sum);
  moving.copy = carried;
}

void TransferEmitter::startUpdate(int number) {
  const tiers::Update &update = trace.step.updates[number];
  nn::UpdateOp op = trace.updates[number].op;
  const nn::LibraryCall &call = trace.updates[number].call;
  SmallVector<int> values = {update.parameter, update.gradient}; // in the order of operands
  llvm::append_range(values, update.state);
  SmallVector<Value> sources;
  SmallVector<int64_t> changes;
  SmallVector<Type> changed;
  for (int operand : call.buffers) {
    bool isNumber = operand >= int(values.size());
    Value copy = isNumber ? shared(operands[number][operand]) : find(values[operand]).copy;
    if (llvm::is_contained(call.inPlace, operand)) {
      changes.push_back(sources.size());
      changed.push_back(copy.getType());
    }
    sources.push_back(copy);
  }
  auto type = dist::HostCallType::get(b.getContext(), changed);
  calls[number] =
      dist::HostStartOp::create(b, op.getLoc(), type, call.function, sources, changes, call.attrs);
}

void TransferEmitter::endUpdate(int number) {
  const tiers::Update &update = trace.step.updates[number];
  Value call = std::exchange(calls[number], Value());
  auto type = cast<dist::HostCallType>(call.getType());
  auto wait = dist::HostWaitOp::create(b, call.getLoc(), type.getResults(), call);
  SmallVector<int> variables = {update.parameter};
  llvm::append_range(variables, update.state);
  for (auto [value, result] : llvm::zip(variables, wait.getResults()))
    updated.push_back({value, result});
}

// All that are under way, in the order of the host's queue.
void TransferEmitter::endUpdates() {
  for (auto &[update, call] : calls)
    if (call)
      endUpdate(update);
}

// At the end of the step a variable becomes what is below.
void TransferEmitter::assignBelow(int value, Value copy) {
  Operation *&assign = find(value).assign;
  nn::VariableOp variable = trace.traced[value].variable;
  auto name = FlatSymbolRefAttr::get(variable.getSymNameAttr());
  b.setInsertionPoint(block->getTerminator()); // behind the last offload
  dist::AssignCopyOp::create(b, assign->getLoc(), name, copy);
  assign->erase();
  assign = nullptr;
}

int64_t TransferEmitter::run(ArrayRef<tiers::Move> moves) {
  // What happens at one position happens in this order: see passes/Tiers/Tiers.h.
  struct Events {
    SmallVector<int> updated, offloads, gone, conversions, updates, made, prefetches, back;
    SmallVector<Value> numbers; // of updates on the host, that start
  };
  std::map<int64_t, Events> events;
  for (auto [i, update] : llvm::enumerate(trace.step.updates)) {
    if (!update.onHost)
      continue;
    nn::UpdateOp op = trace.updates[i].op;
    operands[int(i)] = llvm::to_vector(op->getOperands());
    events[host.ends[i]].updated.push_back(int(i));
    for (int value : llvm::concat<const int>(update.state, ArrayRef(update.parameter)))
      (void)find(value);
    for (Value number : {op.getNorm(), op.getScalars(), op.getDecay()})
      if (numbers.insert({number, {}}).second)
        events[number.getDefiningOp() ? trace.positionOf(number.getDefiningOp()) + 1 : 0].numbers.push_back(
            number);
  }
  for (const tiers::Move &move : moves) {
    const std::vector<tiers::Use> &uses = trace.step.values[move.value].uses;
    if (move.offload >= 0) {
      events[move.offload].offloads.push_back(move.value);
      events[move.gone].gone.push_back(move.value);
    }
    (void)find(move.value);
    if (trace.step.values[move.value].sinks(move.gap))
      continue;
    if (const tiers::Loop &loop = trace.step.loop; trace.step.values[move.value].made >= 0)
      events[loop.has(move.prefetch) ? loop.begin : move.prefetch].made.push_back(move.value);
    events[move.prefetch].prefetches.push_back(move.value);
    events[uses[(move.gap + 1) % uses.size()].position].back.push_back(move.value);
  }
  for (int update : host.queue)
    events[host.begins[update]].updates.push_back(update);
  for (int i : conversionsInOrder())
    events[host.conversions[i]].conversions.push_back(i);
  for (auto &[position, event] : events) {
    insertAt(position);
    if (position < int64_t(trace.ops.size()))
      for (int update : event.updated)
        endUpdate(update);
    for (int value : event.offloads)
      startOffload(find(value), position);
    for (Value number : event.numbers) {
      auto copy = below(number.getType());
      numbers[number].first = dist::OffloadStartOp::create(
          b, number.getLoc(), dist::TransferType::get(b.getContext(), copy), number);
      ++count;
    }
    for (Value number : event.numbers)
      if (position > 0 && position == trace.step.norm)
        (void)shared(number);
    for (int value : event.gone)
      endOffload(find(value));
    for (int conversion : event.conversions)
      startConversion(conversion);
    for (int update : event.updates) {
      if (position == int64_t(trace.ops.size()))
        endUpdates();
      startUpdate(update);
    }
    for (int value : event.made)
      endConversion(find(value));
    for (int value : event.prefetches)
      startPrefetch(find(value));
    for (int value : event.back)
      endPrefetch(find(value), position);
  }
  b.setInsertionPoint(block->getTerminator());
  endUpdates();
  for (auto [value, copy] : updated)
    assignBelow(value, copy);
  for (const tiers::Move &move : moves)
    if (find(move.value).assign && movesHome(trace, move))
      assignBelow(move.value, find(move.value).copy);
  eraseDead(*block);
  return count;
}

// Reads, views of what is gone, and what stood for something.
void TransferEmitter::eraseDead(Block &in) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(in))) {
    if (auto loop = dyn_cast<dist::LoopOp>(op))
      eraseDead(*loop.getBody());
    if ((isView(&op) || converted.contains(&op) ||
         isa<nn::ReadOp, dist::ReadCopyOp, nn::UpdateOp, nn::ConstantOp, UnrealizedConversionCastOp>(op)) &&
        op.use_empty())
      op.erase();
  }
}

} // namespace

std::string tessera::movedText(const TierTrace &trace, ArrayRef<tiers::Move> moves) {
  llvm::MapVector<StringRef, std::pair<llvm::SmallSet<int, 16>, int64_t>> moved;
  for (const tiers::Move &move : moves) {
    nn::VariableOp variable = trace.traced[move.value].variable;
    bool isConverted = trace.step.values[move.value].kind == tiers::Kind::Parameter;
    auto &[values, bytes] = moved[variable      ? TierTrace::categoryOf(variable)
                                  : isConverted ? "parameters"
                                                : "activations"];
    if (values.insert(move.value).second)
      bytes += trace.step.values[move.value].bytes;
  }
  std::string text;
  llvm::raw_string_ostream os(text);
  for (auto &[category, what] : moved)
    os << (text.empty() ? "" : ", ") << sizeText(what.second) << " of " << category << " ("
       << what.first.size() << " values)";
  return text;
}

int64_t tessera::emitTransfers(const TierTrace &trace, ArrayRef<tiers::Move> moves,
                               const tiers::HostPlaces &host) {
  return moves.empty() ? 0 : TransferEmitter(trace, host).run(moves);
}
