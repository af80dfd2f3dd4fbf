// See Storage.h.
#include "passes/Memory/Storage.h"
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pipeline.h"
#include "dialects/dist/Reshard.h"
#include "dialects/exec/Attributes.h"
#include "dialects/nn/Attributes.h"
#include "passes/Memory/VariablePlaces.h"
#include <numeric>

using namespace mlir;
using namespace tessera;

Storage::Storage(func::FuncOp func, ModuleOp kernels, const nn::Library &library, int64_t threads)
    : liveness(func), body(&func.getBody().front()), hazards(*body),
      symbols(func->getParentOfType<ModuleOp>()), kernels(kernels), calls(library, threads) {
  findGradients(func);
  findPlaces(func);
  func.walk([&](nn::ReadOp read) { reads[read.getVariable()].push_back(read); });
  func.walk([&](dist::ReadCopyOp read) { reads[read.getVariable()].push_back(read); });
  for (BlockArgument arg : body->getArguments())
    // A stage of a pipeline has no memory for inputs that only others use, and numbers go by value.
    if (!arg.use_empty() ||
        !(dist::kStage.isOn(func) || nn::inputKind(func, arg.getArgNumber()) == nn::InputKind::Scalar))
      define(arg);
  visit(*body);
}

// Whether the operator adds one microbatch's term to the sum of those before it.
static bool addsUp(Operation *op, Value sum) {
  auto apply = dyn_cast<exec::ApplyOp>(op);
  return apply && apply.getAdds() &&
         llvm::all_of(op->getOperandTypes(), [&](Type type) { return type == sum.getType(); });
}

// The values that a gradient's is a view, a part, a sum, a reduction or a copy of.
static SmallVector<Value> gradientsOf(Value gradient) {
  Operation *def = gradient.getDefiningOp();
  if (!def)
    return {};
  if (auto arrived = dyn_cast<dist::PrefetchWaitOp>(def))
    return {arrived.getTransfer().getDefiningOp<dist::PrefetchStartOp>().getSource()};
  if (auto arrived = dyn_cast<dist::OffloadWaitOp>(def))
    return {arrived.getTransfer().getDefiningOp<dist::OffloadStartOp>().getSource()};
  if (auto loop = dyn_cast<dist::LoopOp>(def); loop && isa<dist::CopyType>(gradient.getType()))
    return {loop.getInits()[cast<OpResult>(gradient).getResultNumber()]};
  if (isa<dist::CollectiveOp, dist::CollectiveWaitOp, dist::CollectiveStartOp, dist::PackOp, dist::UnpackOp,
          dist::FlattenOp, exec::OwnOp>(def) ||
      isView(def) || addsUp(def, gradient))
    return def->getOperands();
  return {};
}

// The gradients that updates read, and what these are made of. An update on the host has its numbers before
// what it changes, so that what it reads behind is the gradient.
void Storage::findGradients(func::FuncOp func) {
  SmallVector<Value> open;
  func.walk([&](nn::UpdateOp update) { open.push_back(update.getGradient()); });
  func.walk([&](dist::HostStartOp call) {
    for (auto [i, source] : llvm::enumerate(call.getSources()))
      if (source.getDefiningOp<dist::OffloadWaitOp>() || source.getDefiningOp<dist::LoopOp>())
        if (!call.getChanges().empty() && int64_t(i) > call.getChanges().front())
          open.push_back(source);
  });
  while (!open.empty()) {
    Value value = open.pop_back_val();
    Operation *def = value.getDefiningOp();
    if (gradients.insert(value).second)
      llvm::append_range(open, gradientsOf(value));
    // What the library computes in place of an operand.
    const nn::LibraryCall *call = def ? callOf(def) : nullptr;
    if (call)
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
  dist::CollectiveInterface op = dist::collectiveOf(value);
  return op && rt::collectiveTraits(op.getKind()).yieldsAtRoot() ? *op.getSpec().root : -1;
}

// The sum over microbatches that the value continues and can be in place of: that of a loop, or what stands
// in front of one.
Value Storage::sumBefore(Value value) {
  Operation *def = value.getDefiningOp();
  auto isSum = [&](int64_t operand) {
    Value sum = operand < 0 ? Value() : def->getOperand(operand);
    return sum && sum.getDefiningOp() && sum.getParentBlock() == def->getBlock() && sum.hasOneUse() &&
           sum.getType() == value.getType() &&
           (isa<dist::LoopOp>(sum.getDefiningOp()) || isFilled(sum.getDefiningOp()) ||
            addsToFilled(sum.getDefiningOp()));
  };
  if (auto loop = dyn_cast<dist::LoopOp>(def)) {
    Value init = loop.getInits()[cast<OpResult>(value).getResultNumber()];
    return init.hasOneUse() && addsToFilled(init.getDefiningOp()) ? init : Value();
  }
  if (auto apply = dyn_cast<exec::ApplyOp>(def)) {
    auto kernel = kernels ? kernels.lookupSymbol<func::FuncOp>(apply.getKernel()) : func::FuncOp();
    if (auto pairs = kernel ? exec::kInPlace.of(kernel) : ArrayAttr())
      for (auto pair : pairs.getAsRange<DenseI64ArrayAttr>())
        if (def->getResult(pair[1]) == value && isSum(pair[0]))
          return def->getOperand(pair[0]);
  } else if (const nn::LibraryCall *call = callOf(def)) {
    auto number = cast<OpResult>(value).getResultNumber();
    if (int64_t from = number < call->inPlace.size() ? call->inPlace[number] : -1; isSum(from))
      return def->getOperand(from);
  }
  return {};
}

void Storage::findPlaces(func::FuncOp func) {
  func.walk([&](dist::PackOp pack) {
    if (pack.getBlocks() > 1)
      return; // copied
    SmallVector<int64_t> offsets = dist::packOffsets(pack.getSources().getTypes());
    for (auto [source, offset] : llvm::zip(pack.getSources(), offsets)) {
      Value value = viewed(source);
      Operation *def = value.getDefiningOp();
      if (!def || def->getBlock() != pack->getBlock() ||
          !places.try_emplace(value, Place{pack, offset}).second)
        continue;
      for (Value sum = sumBefore(value); sum; sum = sumBefore(sum))
        places.try_emplace(sum, Place{pack, offset});
    }
  });
  func.walk([&](exec::OwnOp own) {
    for (auto [rank, source] : llvm::enumerate(own.getSources()))
      if (reducedTo(source) == int64_t(rank))
        places.try_emplace(source, Place{own, 0});
  });
}

int64_t tessera::bufferAlignment(Operation *inModule, Tier tier) {
  auto module = dyn_cast<ModuleOp>(inModule);
  if (!module)
    module = inModule->getParentOfType<ModuleOp>();
  return tier != Tier::Device && dist::kNvmeMemory.isOn(module) ? rt::nvmeBlock : kBufferAlignment;
}

int Storage::create(int64_t bytes, int64_t start, int64_t end, StringRef category, Tier tier) {
  list.push_back({start, end, bytes, category, tier, nullptr});
  return list.size() - 1;
}

int Storage::ofVariable(nn::VariableOp variable) {
  auto [it, isNew] = variables.try_emplace(variable.getSymName(), 0);
  if (isNew) {
    StringRef category = variable.getRole() == "optimizer" ? "optimizer" : "parameters";
    it->second = create(VariablePlaces::bytes(variable), 0, 0, category, dist::restsIn(variable));
    list[it->second].variable = variable;
  }
  return it->second;
}

int Storage::part(int whole, int64_t offset, int64_t bytes) {
  int64_t start = list[whole].start;
  list.push_back({start, start + 1, bytes, list[whole].category, list[whole].tier, nullptr, whole, offset});
  return list.size() - 1;
}

int Storage::ofPack(Operation *pack) const {
  auto it = packs.find(pack);
  return it == packs.end() ? -1 : it->second;
}

void Storage::define(Value value, int64_t start) {
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

void Storage::bind(Value value, int buffer) {
  root[value] = buffer;
  extend(buffer, liveness.lastUse(value) + 1);
}

void Storage::extend(int buffer, int64_t end) {
  if (!list[buffer].variable)
    list[buffer].end = std::max(list[buffer].end, end);
  if (int whole = list[buffer].whole; whole >= 0)
    extend(whole, end);
}

bool Storage::diesAt(Value value, Operation *op) const {
  int buffer = of(value);
  if (list[buffer].variable || (isa<BlockArgument>(value) && value.getParentBlock() == body))
    return false;
  if (list[buffer].whole >= 0)
    return false; // its bytes are the pack's
  // A value from outside the loop is read again in the next iteration.
  if (value.getParentBlock() != op->getBlock())
    return false;
  return list[buffer].end <= liveness.start(op) + 1;
}

// Whether `value` is one that a loop carries, which a turn reads no more behind `op`, and `result` what the
// loop carries on in its place.
bool Storage::isCarriedOnBy(Value value, Operation *op, Value result) const {
  auto carried = dyn_cast<BlockArgument>(value);
  if (!carried || carried.getOwner() != op->getBlock() || !isa<dist::LoopOp>(op->getParentOp()))
    return false;
  Value next = op->getBlock()->getTerminator()->getOperand(carried.getArgNumber());
  return viewed(next) == result && liveness.lastUse(carried) <= liveness.start(op);
}

StringRef Storage::categoryOf(Value value) const {
  return gradients.contains(value) ? "gradients" : "activations";
}

int Storage::extraOf(Operation *op) const {
  auto it = extras.find(op);
  return it == extras.end() ? -1 : it->second;
}

SmallVector<int> Storage::inPlaceOf(exec::ApplyOp op) const {
  SmallVector<int> operands(op.getNumResults(), -1);
  if (auto it = inPlace.find(op); it != inPlace.end())
    operands[it->second.second] = it->second.first;
  return operands;
}

std::vector<int64_t> Storage::liveBytes(Tier tier) const {
  int64_t last = liveness.end(body->getTerminator());
  std::vector<int64_t> live(last + 2);
  for (const Buffer &buffer : list)
    if (buffer.tier == tier && buffer.whole < 0 && !buffer.variable && buffer.start < buffer.end) {
      int64_t bytes = llvm::alignTo(buffer.bytes, alignment(tier));
      live[buffer.start] += bytes;
      live[std::min(buffer.end, last + 1)] -= bytes;
    }
  std::partial_sum(live.begin(), live.end(), live.begin());
  live.pop_back();
  return live;
}

std::pair<int64_t, int64_t> Storage::fullestMoment(Tier tier) const {
  std::vector<int64_t> live = liveBytes(tier);
  auto most = llvm::max_element(live);
  return {most - live.begin(), *most};
}
