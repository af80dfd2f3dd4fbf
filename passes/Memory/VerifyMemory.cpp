// Checks exec programs by what lies in their bytes, without asking who planned them.
#include "dialects/dist/Attributes.h"
#include "dialects/exec/Attributes.h"
#include "dialects/nn/Attributes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Memory/Arena.h"
#include "passes/Memory/Passes.h"
#include "llvm/ADT/StringSet.h"
#include <map>

namespace tessera {
#define GEN_PASS_DEF_VERIFYMEMORY
#include "passes/Memory/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

namespace {

// Bytes of a buffer that an operation reads or writes.
struct Access {
  Operation *op;
  Value buffer;
  exec::BufferOp root;
  Tier tier;
  int64_t begin, end; // in the tier's arena
  bool writes;

  bool overlaps(const Access &other) const {
    return tier == other.tier && begin < other.end && other.begin < end;
  }
};

Diagnostic &operator<<(Diagnostic &diag, const Access &access) {
  diag << "bytes [" << access.begin << ", " << access.end << ")";
  return access.tier == Tier::Device ? diag : diag << " of the " << tierName(access.tier);
}

Tier tierOf(exec::BufferOp buffer) { return buffer.getType().getTier(); }

class ProgramChecker {
public:
  explicit ProgramChecker(func::FuncOp func) : func(func) {}

  LogicalResult run() {
    Block &body = func.getBody().front();
    if (failed(buffers(body)) || failed(operations(body)))
      return failure();
    if (!inFlight.empty())
      return inFlight.front().access.op->emitOpError("is never waited for");
    return variablesRest();
  }

private:
  // What is under way until it is waited for.
  struct Flight {
    int64_t token;
    Access access;
  };

  LogicalResult buffers(Block &body);
  LogicalResult operations(Block &block);
  LogicalResult operation(Operation &op);
  LogicalResult loop(exec::LoopOp op);
  LogicalResult wait(exec::WaitOp op);
  LogicalResult read(const Access &access);
  LogicalResult variablesRest();
  LogicalResult isFree(const Access &access);

  func::FuncOp func;
  std::map<Tier, Arena> arenas;
  SmallVector<exec::BufferOp> variables;
  SmallVector<Flight> inFlight;
  llvm::StringSet<> scalars;                                                   // the inputs of that kind
  llvm::DenseMap<Operation *, SmallVector<std::pair<int64_t, int64_t>>> parts; // of a buffer, in it
};

// The bytes of an operation's buffers. A program that reads and writes one buffer has two accesses.
SmallVector<Access> accessesOf(Operation &op) {
  SmallVector<Access> list;
  SmallVector<MemoryEffects::EffectInstance> effects;
  if (auto interface = dyn_cast<MemoryEffectOpInterface>(op))
    interface.getEffects(effects);
  for (const MemoryEffects::EffectInstance &effect : effects) {
    Value buffer = effect.getValue();
    if (!buffer)
      continue;
    exec::BufferRange range = exec::rangeOf(buffer);
    int64_t begin = int64_t(range.root.getOffset()) + range.offset;
    if (range.bytes > 0)
      list.push_back({&op, buffer, range.root, tierOf(range.root), begin, begin + range.bytes,
                      isa<MemoryEffects::Write>(effect.getEffect())});
  }
  return list;
}

std::optional<int64_t> tokenOf(Operation &op) {
  if (auto collective = dyn_cast<exec::CollectiveOp>(op); collective && int64_t(collective.getToken()) >= 0)
    return int64_t(collective.getToken());
  if (auto send = dyn_cast<exec::SendOp>(op))
    return int64_t(send.getToken());
  if (auto copy = dyn_cast<exec::CopyOp>(op))
    return int64_t(copy.getToken());
  if (auto call = dyn_cast<exec::HostCallOp>(op))
    return int64_t(call.getToken());
  return std::nullopt;
}

// Reductions to one rank each may be made in one buffer, which each rank writes once.
bool reducesElsewhere(Operation *op, Operation *other) {
  auto root = [](Operation *each) {
    auto collective = dyn_cast<exec::CollectiveOp>(each);
    return collective && rt::collectiveTraits(*rt::findCollectiveKind(collective.getKind())).yieldsAtRoot()
               ? collective.getRoot()
               : std::nullopt;
  };
  return root(op) && root(other) && *root(op) != *root(other);
}

LogicalResult ProgramChecker::buffers(Block &body) {
  auto memory = exec::kMemory.of(func);
  auto peakOf = [&](Tier tier) {
    DictionaryAttr figures =
        !memory || tier == Tier::Device ? memory : memory.getAs<DictionaryAttr>(tierName(tier));
    return figures ? figures.getAs<IntegerAttr>("peak") : IntegerAttr();
  };
  std::map<Tier, std::map<int64_t, exec::BufferOp>> tiers; // places of variables, by offset
  for (Operation &op : body) {
    if (auto part = dyn_cast<exec::PartOp>(op)) {
      exec::BufferRange range = exec::rangeOf(part);
      parts[range.root].push_back({range.offset, range.offset + range.bytes});
    }
    auto buffer = dyn_cast<exec::BufferOp>(op);
    if (!buffer)
      continue;
    int64_t begin = buffer.getOffset(), end = begin + int64_t(buffer.getBytes());
    if (IntegerAttr peak = peakOf(tierOf(buffer)); peak && end > peak.getInt())
      return buffer.emitOpError("ends at byte ") << end << " of an arena of " << peak.getInt();
    if (!buffer.getVariable())
      continue;
    // Those before do not overlap, so that only the last that begins before the end may.
    auto &places = tiers[tierOf(buffer)];
    auto after = places.lower_bound(end);
    if (after != places.begin()) {
      exec::BufferOp other = std::prev(after)->second;
      if (begin < int64_t(other.getOffset() + other.getBytes()))
        return (buffer.emitOpError("of variable @")
                << *buffer.getVariable() << " overlaps that of @" << *other.getVariable())
                   .attachNote(other.getLoc())
               << "which is here";
    }
    if (begin < end)
      places[begin] = buffer;
    variables.push_back(buffer);
    arenas[tierOf(buffer)].write(begin, end, {buffer, buffer});
  }
  return success();
}

LogicalResult ProgramChecker::operations(Block &block) {
  for (Operation &op : block)
    if (failed(operation(op)))
      return failure();
  return success();
}

LogicalResult ProgramChecker::operation(Operation &op) {
  if (auto input = dyn_cast<exec::InputOp>(op);
      input && input.getKind() == nn::stringifyInputKind(nn::InputKind::Scalar))
    scalars.insert(input.getName());
  if (auto scalar = dyn_cast<exec::ScalarOp>(op); scalar && !scalars.contains(scalar.getInput()))
    return scalar.emitOpError("reads \"") << scalar.getInput() << "\", which is no input of kind scalar";
  if (auto inner = dyn_cast<exec::LoopOp>(op))
    return loop(inner);
  if (auto awaited = dyn_cast<exec::WaitOp>(op))
    return wait(awaited);
  for (Value operand : op.getOperands())
    if (isa<exec::BufferType>(operand.getType()) && !exec::rangeOf(operand).root)
      return op.emitOpError("takes a buffer that no exec.buffer makes");
  SmallVector<Access> accesses = accessesOf(op);
  for (const Access &access : accesses)
    if (failed(isFree(access)) || (!access.writes && failed(read(access))))
      return failure();
  for (const Access &access : accesses)
    for (const Access &other : accesses)
      if (access.writes && access.root != other.root && access.overlaps(other))
        return op.emitOpError("writes ") << access << " over its own buffer at " << other;
  std::optional<int64_t> token = tokenOf(op);
  if (token)
    for (const Flight &flight : inFlight)
      if (flight.token == *token)
        return (op.emitOpError("starts with token ") << *token << ", which is under way")
                   .attachNote(flight.access.op->getLoc())
               << "since here";
  for (const Access &access : accesses)
    if (token)
      inFlight.push_back({*token, access});
    else if (access.writes)
      arenas[access.tier].write(access.begin, access.end, {&op, access.root});
  return success();
}

// What a loop reads in its second turn lies where the first one left it.
LogicalResult ProgramChecker::loop(exec::LoopOp op) {
  for (int64_t turn = 0, turns = std::min<int64_t>(op.getTimes(), 2); turn < turns; ++turn) {
    size_t before = inFlight.size();
    if (failed(operations(op.getBody().front())))
      return failure();
    if (inFlight.size() > before)
      return inFlight.back().access.op->emitOpError("is not waited for in its turn of the loop");
  }
  return success();
}

LogicalResult ProgramChecker::wait(exec::WaitOp op) {
  int64_t token = op.getToken();
  bool isKnown = false;
  for (const Flight &flight : inFlight)
    if (flight.token == token) {
      isKnown = true;
      if (flight.access.writes)
        arenas[flight.access.tier].write(flight.access.begin, flight.access.end,
                                         {flight.access.op, flight.access.root});
    }
  if (!isKnown)
    return op.emitOpError("waits for token ") << token << ", with which nothing was started";
  llvm::erase_if(inFlight, [&](const Flight &flight) { return flight.token == token; });
  return success();
}

// Nobody touches what is being written beside the program, nor writes what is being read.
LogicalResult ProgramChecker::isFree(const Access &access) {
  for (const Flight &flight : inFlight) {
    const Access &other = flight.access;
    if (!access.overlaps(other) || (!access.writes && !other.writes) || reducesElsewhere(access.op, other.op))
      continue;
    return (access.op->emitOpError(access.writes ? "writes " : "reads ")
            << access << ", which '" << other.op->getName() << "' with token " << flight.token << " still "
            << (other.writes ? "writes" : "reads"))
               .attachNote(other.op->getLoc())
           << "which was started here";
  }
  return success();
}

LogicalResult ProgramChecker::read(const Access &access) {
  auto isInPart = [&](int64_t begin, int64_t end) {
    auto found = parts.find(access.root);
    int64_t offset = exec::BufferOp(access.root).getOffset();
    return found == parts.end() || llvm::any_of(found->second, [&](const auto &part) {
             return offset + part.first < end && begin < offset + part.second;
           });
  };
  // Bytes between the parts of a buffer are nobody's.
  for (const Arena::Piece &piece : arenas[access.tier].pieces(access.begin, access.end)) {
    if (piece.content.root == access.root || !isInPart(piece.begin, piece.end))
      continue;
    if (!piece.content.writer)
      return access.op->emitOpError("reads ")
             << access << ", of which nothing has written [" << piece.begin << ", " << piece.end << ")";
    return (access.op->emitOpError("reads ")
            << access << ", of which '" << piece.content.writer->getName() << "' has overwritten ["
            << piece.begin << ", " << piece.end << ") through another buffer")
               .attachNote(piece.content.writer->getLoc())
           << "which writes here";
  }
  return success();
}

LogicalResult ProgramChecker::variablesRest() {
  for (exec::BufferOp buffer : variables) {
    int64_t begin = buffer.getOffset(), end = begin + int64_t(buffer.getBytes());
    for (const Arena::Piece &piece : arenas[tierOf(buffer)].pieces(begin, end))
      if (piece.content.root != buffer)
        return (piece.content.writer->emitOpError("leaves its bytes [")
                << piece.begin << ", " << piece.end << ") in the place of variable @" << *buffer.getVariable()
                << ", which the next step reads")
                   .attachNote(buffer.getLoc())
               << "which is here";
  }
  return success();
}

struct VerifyMemoryPass : tessera::impl::VerifyMemoryBase<VerifyMemoryPass> {
  // The programs of one rank find a variable in one place.
  LogicalResult sharedPlaces(ModuleOp module) {
    std::map<std::pair<int64_t, StringRef>, exec::BufferOp> places; // by stage and variable
    for (auto func : module.getOps<func::FuncOp>()) {
      for (auto buffer : func.getBody().front().getOps<exec::BufferOp>()) {
        if (!buffer.getVariable())
          continue;
        auto [it, isNew] = places.insert({{dist::stageOf(func), *buffer.getVariable()}, buffer});
        exec::BufferOp other = it->second;
        if (!isNew && other.getType() != buffer.getType())
          return (buffer.emitOpError("has variable @")
                  << *buffer.getVariable() << " in the tier " << tierName(tierOf(buffer))
                  << ", where another program has it in the tier " << tierName(tierOf(other)))
                     .attachNote(other.getLoc())
                 << "which is here";
        if (!isNew && (other.getOffset() != buffer.getOffset() || other.getBytes() != buffer.getBytes()))
          return (buffer.emitOpError("has variable @")
                  << *buffer.getVariable() << " at byte " << int64_t(buffer.getOffset())
                  << ", where another program has it at " << int64_t(other.getOffset()))
                     .attachNote(other.getLoc())
                 << "which is here";
      }
    }
    return success();
  }

  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (failed(ProgramChecker(func).run()))
        return signalPassFailure();
    if (failed(sharedPlaces(getOperation())))
      signalPassFailure();
  }
};

} // namespace
