// See Buffers.h.
#include "passes/Memory/Buffers.h"
#include "dialects/dist/Reshard.h"

using namespace mlir;
using namespace tessera;

Buffers::Buffers(func::FuncOp func, Block *program)
    : liveness(func), b(func.getContext()), body(&func.getBody().front()), program(program),
      loc(func.getLoc()) {
  findGradients(func);
  findPlaces(func);
}

// Whether the operator adds one microbatch's term to the sum of those before it.
static bool addsUp(Operation *op, Value sum) {
  auto kind = op->getAttrOfType<StringAttr>("kind");
  return isa<exec::ApplyOp>(op) && kind && kind.getValue() == "add" &&
         llvm::all_of(op->getOperandTypes(), [&](Type type) { return type == sum.getType(); });
}

// The gradients that updates read, and what these are views, parts, sums or reductions of.
void Buffers::findGradients(func::FuncOp func) {
  SmallVector<Value> open;
  func.walk([&](nn::UpdateOp update) { open.push_back(update.getGradient()); });
  while (!open.empty()) {
    Value value = open.pop_back_val();
    Operation *def = value.getDefiningOp();
    if (gradients.insert(value).second && def &&
        (isa<dist::CollectiveOp, dist::CollectiveWaitOp, dist::CollectiveStartOp, dist::PackOp,
             dist::UnpackOp, dist::FlattenOp, exec::OwnOp>(def) ||
         isView(def) || addsUp(def, value)))
      llvm::append_range(open, def->getOperands());
    // What the library computes in place of an operand.
    auto library = dyn_cast_or_null<nn::LibraryOpInterface>(def);
    if (auto call = library ? library.getLibraryCall(1) : std::nullopt)
      for (auto [result, from] : llvm::zip(def->getResults(), call->inPlace))
        if (result == value && from >= 0 && llvm::is_contained(call->buffers, from))
          open.push_back(def->getOperand(from));
  }
}

// What a value is a view of, by reshapes in its block.
static Value viewed(Value value) {
  for (Operation *def = value.getDefiningOp(); def; def = value.getDefiningOp()) {
    if (!isView(def))
      break;
    value = def->getOperand(0);
  }
  return value;
}

// The index of the only rank that has the value, or -1.
static int64_t reducedTo(Value value) {
  auto rootOf = [](auto op) -> int64_t {
    return op && op.getKind() == dist::CollectiveKind::Reduce ? int64_t(*op.getRoot()) : -1;
  };
  if (auto wait = value.getDefiningOp<dist::CollectiveWaitOp>())
    return rootOf(wait.getToken().getDefiningOp<dist::CollectiveStartOp>());
  return rootOf(value.getDefiningOp<dist::CollectiveOp>());
}

void Buffers::findPlaces(func::FuncOp func) {
  func.walk([&](dist::PackOp pack) {
    if (pack.getBlocks() > 1)
      return; // copied
    SmallVector<int64_t> offsets = dist::packOffsets(pack.getSources().getTypes());
    for (auto [source, offset] : llvm::zip(pack.getSources(), offsets)) {
      Value value = viewed(source);
      if (Operation *def = value.getDefiningOp(); def && def->getBlock() == pack->getBlock())
        places.try_emplace(value, Place{pack, offset});
    }
  });
  func.walk([&](exec::OwnOp own) {
    for (auto [rank, source] : llvm::enumerate(own.getSources()))
      if (reducedTo(source) == int64_t(rank))
        places.try_emplace(source, Place{own, 0});
  });
}

void Buffers::moveBehindBuffers() {
  b.setInsertionPointToStart(program);
  if (!buffers.empty())
    b.setInsertionPointAfter(buffers.back().op);
}

int Buffers::create(int64_t bytes, int64_t start, int64_t end, StringRef category) {
  moveBehindBuffers();
  auto op = exec::BufferOp::create(b, loc, exec::BufferType::get(b.getContext()), 0, bytes, category,
                                   FlatSymbolRefAttr());
  buffers.push_back({start, end, bytes, category.str(), nullptr, op});
  return buffers.size() - 1;
}

int Buffers::ofVariable(nn::VariableOp variable) {
  auto [it, isNew] = variables.try_emplace(variable.getSymName(), 0);
  if (isNew) {
    StringRef category = variable.getRole() == "optimizer" ? "optimizer" : "parameters";
    it->second = create(VariablePlaces::bytes(variable), 0, 0, category);
    buffers[it->second].variable = variable;
    cast<exec::BufferOp>(buffers[it->second].op).setVariable(variable.getSymName());
  }
  return it->second;
}

int Buffers::part(int whole, int64_t offset, int64_t bytes) {
  moveBehindBuffers();
  auto op = exec::PartOp::create(b, loc, exec::BufferType::get(b.getContext()), handle(whole), offset, bytes);
  int64_t start = buffers[whole].start;
  buffers.push_back({start, start + 1, bytes, buffers[whole].category, nullptr, op, whole, offset});
  return buffers.size() - 1;
}

int Buffers::ofPack(Operation *pack) {
  auto it = packs.find(pack);
  return it == packs.end() ? -1 : it->second;
}

void Buffers::define(Value value, int64_t start) {
  Operation *op = value.getDefiningOp();
  if (start < 0)
    start = op ? liveness.start(op) : 0;
  if (auto it = places.find(value); it != places.end()) {
    // The first member that is made brings the pack with it.
    auto [pack, isNew] = packs.try_emplace(it->second.pack, 0);
    if (isNew)
      pack->second = create(dist::bytesOf(it->second.pack->getResult(0).getType()), start, start + 1,
                            categoryOf(it->second.pack->getResult(0)));
    return bind(value, part(pack->second, it->second.offset, dist::bytesOf(value.getType())));
  }
  bind(value, create(dist::bytesOf(value.getType()), start, start + 1, categoryOf(value)));
}

void Buffers::bind(Value value, int buffer) {
  root[value] = buffer;
  extend(buffer, liveness.lastUse(value) + 1);
}

void Buffers::extend(int buffer, int64_t end) {
  if (!isVariable(buffer))
    buffers[buffer].end = std::max(buffers[buffer].end, end);
  if (int whole = buffers[buffer].whole; whole >= 0)
    extend(whole, end);
}

bool Buffers::diesAt(Value value, Operation *op) const {
  int buffer = of(value);
  if (isVariable(buffer) || (isa<BlockArgument>(value) && value.getParentBlock() == body))
    return false;
  if (buffers[buffer].whole >= 0)
    return false; // its bytes are the pack's
  // A value from outside the loop is read again in the next iteration.
  if (value.getParentBlock() != op->getBlock())
    return false;
  return buffers[buffer].end <= liveness.start(op) + 1;
}

StringRef Buffers::categoryOf(Value value) const {
  return gradients.contains(value) ? "gradients" : "activations";
}
