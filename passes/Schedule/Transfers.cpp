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

class TransferEmitter {
public:
  explicit TransferEmitter(const TierTrace &trace)
      : trace(trace), block(trace.ops.front()->getBlock()), b(block->getTerminator()) {}

  int64_t run(ArrayRef<tiers::Move> moves);

private:
  // What a value that moves is at the moment: in its tier, below, or under way.
  struct Moving {
    SmallVector<Value> now; // of a variable all reads of it
    Value copy, transfer;
    Operation *assign = nullptr; // nn.assign, or dist.assign_copy
    int64_t written = -1;        // where the variable's new value is made
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
  void eraseDead();

  const TierTrace &trace;
  Block *block;
  OpBuilder b;
  llvm::MapVector<int, Moving> values;
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
  if (moving.assign && moving.written >= 0 && moving.written < position) {
    // Made in another shape, perhaps: the reshape may stand further down.
    Value made = assigned(moving.assign);
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

int64_t TransferEmitter::run(ArrayRef<tiers::Move> moves) {
  // What happens at one position happens in this order: see passes/Tiers/Tiers.h.
  struct Events {
    SmallVector<int> offloads, gone, prefetches, back;
  };
  std::map<int64_t, Events> events;
  for (const tiers::Move &move : moves) {
    const std::vector<tiers::Use> &uses = trace.step.values[move.value].uses;
    if (move.offload >= 0) {
      events[move.offload].offloads.push_back(move.value);
      events[move.gone].gone.push_back(move.value);
    }
    events[move.prefetch].prefetches.push_back(move.value);
    events[uses[(move.gap + 1) % uses.size()].position].back.push_back(move.value);
    (void)find(move.value);
  }
  for (auto &[position, event] : events) {
    insertAt(position);
    for (int value : event.offloads)
      startOffload(find(value), position);
    for (int value : event.gone)
      endOffload(find(value));
    for (int value : event.prefetches)
      startPrefetch(find(value));
    for (int value : event.back)
      endPrefetch(find(value), position);
  }
  for (const tiers::Move &move : moves)
    if (Operation *&assign = find(move.value).assign; assign && movesHome(trace, move)) {
      b.setInsertionPoint(block->getTerminator()); // behind the last offload
      nn::VariableOp variable = trace.traced[move.value].variable;
      auto name = FlatSymbolRefAttr::get(variable.getSymNameAttr());
      dist::AssignCopyOp::create(b, assign->getLoc(), name, find(move.value).copy);
      assign->erase();
      assign = nullptr;
    }
  eraseDead();
  return count;
}

// Reads, and views of what is gone.
void TransferEmitter::eraseDead() {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*block)))
    if ((isView(&op) || isa<nn::ReadOp, dist::ReadCopyOp>(op)) && op.use_empty())
      op.erase();
}

} // namespace

std::string tessera::movedText(const TierTrace &trace, ArrayRef<tiers::Move> moves) {
  llvm::MapVector<StringRef, std::pair<llvm::SmallSet<int, 16>, int64_t>> moved;
  for (const tiers::Move &move : moves) {
    nn::VariableOp variable = trace.traced[move.value].variable;
    auto &[values, bytes] = moved[variable ? TierTrace::categoryOf(variable) : "activations"];
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

int64_t tessera::emitTransfers(const TierTrace &trace, ArrayRef<tiers::Move> moves) {
  return moves.empty() ? 0 : TransferEmitter(trace).run(moves);
}
