// Where operators' results lie, in program order: see Storage.h.
#include "dialects/dist/CollectiveSize.h"
#include "dialects/exec/Attributes.h"
#include "passes/Memory/Storage.h"

using namespace mlir;
using namespace tessera;

void Storage::visit(Block &block) {
  for (Operation &op : block.without_terminator())
    visit(op);
}

void Storage::visit(Operation &op) {
  auto variable = [&] { return ofVariable(variableOf(op.getAttrOfType<FlatSymbolRefAttr>("variable"))); };
  if (isa<nn::ReadOp, dist::ReadCopyOp>(op)) {
    bind(op.getResult(0), variable());
  } else if (isa<nn::AssignOp, dist::AssignCopyOp>(op)) {
    variable();
  } else if (isFilled(&op)) {
    define(op.getResult(0));
  } else if (isa<dist::BlockStartOp, dist::ValidOp, exec::ScalarOp, dist::AbsentOp>(op) ||
             op.hasTrait<OpTrait::ConstantLike>() ||
             isa<dist::CollectiveWaitOp, dist::OffloadWaitOp, dist::PrefetchWaitOp, dist::HostWaitOp>(op)) {
    return; // have no bytes, or their starts have bound them
  } else if (isView(&op)) {
    bind(op.getResult(0), of(op.getOperand(0)));
  } else if (auto apply = dyn_cast<exec::ApplyOp>(op)) {
    visitKernel(apply);
  } else if (const nn::LibraryCall *call = callOf(&op)) {
    visitLibrary(op, *call);
  } else if (auto mask = dyn_cast<dist::MaskPaddingOp>(op)) {
    if (diesAt(mask.getSource(), mask) && !hasPlace(mask.getResult()))
      takeOver(mask.getResult(), of(mask.getSource()));
    else
      define(mask.getResult());
  } else if (isa<dist::CollectiveOp, dist::CollectiveStartOp>(op)) {
    visitCollective(op);
  } else if (isa<dist::OffloadStartOp, dist::PrefetchStartOp>(op)) {
    visitTransfer(op);
  } else if (auto call = dyn_cast<dist::HostStartOp>(op)) {
    visitHostCall(call);
  } else if (auto own = dyn_cast<exec::OwnOp>(op)) {
    if (int buffer = ofPack(own); buffer >= 0)
      bind(own.getResult(), buffer);
  } else if (auto pack = dyn_cast<dist::PackOp>(op)) {
    visitPack(pack);
  } else if (auto unpack = dyn_cast<dist::UnpackOp>(op)) {
    visitUnpack(unpack);
  } else if (auto loop = dyn_cast<dist::LoopOp>(op)) {
    visitLoop(loop);
  } else {
    for (Value result : op.getResults())
      if (isa<RankedTensorType>(result.getType()))
        define(result);
  }
}

// One pair only: each is known to be safe by itself, not with another. Rather one that the loop carries on,
// which would be copied else.
std::optional<std::pair<int, int>> Storage::kernelInPlace(exec::ApplyOp op, func::FuncOp kernel) const {
  auto pairs = kernel ? exec::kInPlace.of(kernel) : ArrayAttr();
  if (!pairs)
    return std::nullopt;
  std::optional<std::pair<int, int>> first;
  for (Attribute attr : pairs) {
    auto pair = cast<DenseI64ArrayAttr>(attr);
    Value operand = op.getOperands()[pair[0]], result = op.getResult(pair[1]);
    bool once = llvm::count(op.getOperands(), operand) == 1;
    bool shared = llvm::any_of(op.getOperands(), [&](Value other) {
      return other != operand && isa<RankedTensorType>(other.getType()) && of(other) == of(operand);
    });
    bool isPlaced = isMadeInPlaceOf(result, operand);
    if (!once || shared || (hasPlace(result) && !isPlaced) ||
        dist::bytesOf(operand.getType()) != dist::bytesOf(result.getType()))
      continue;
    std::pair<int, int> found(pair[0], pair[1]);
    if (isPlaced || isCarriedOnBy(operand, op, result))
      return found;
    if (!first && diesAt(operand, op))
      first = found;
  }
  return first;
}

void Storage::visitKernel(exec::ApplyOp op) {
  auto kernel = kernels ? kernels.lookupSymbol<func::FuncOp>(op.getKernel()) : func::FuncOp();
  if (auto pair = kernelInPlace(op, kernel))
    inPlace[op] = *pair;
  for (auto [result, from] : llvm::zip(op.getResults(), inPlaceOf(op)))
    if (from >= 0)
      takeOver(result, of(op.getOperands()[from]));
    else
      define(result);
  auto workspace = kernel ? exec::kWorkspace.of(kernel) : IntegerAttr();
  int64_t at = liveness.start(op);
  if (workspace && workspace.getInt() > 0)
    extras[op] = create(workspace.getInt(), at, at + 1, "workspace");
}

void Storage::visitLibrary(Operation &op, const nn::LibraryCall &call) {
  int64_t at = liveness.start(&op);
  for (auto [r, result] : llvm::enumerate(op.getResults())) {
    int from = r < call.inPlace.size() ? call.inPlace[r] : -1;
    if (from < 0) {
      define(result);
      continue;
    }
    Value operand = op.getOperand(from);
    // The update of a variable happens in it, when nothing reads the old value afterwards.
    nn::VariableOp variable = updatedBy(result);
    bool updatesIt = variable && list[of(operand)].variable == variable && liveness.lastUse(operand) <= at;
    if (updatesIt || diesAt(operand, &op) || isCarriedOnBy(operand, &op, result) ||
        isMadeInPlaceOf(result, operand))
      takeOver(result, of(operand));
    else
      define(result);
  }
  if (call.workspace > 0)
    extras[&op] = create(call.workspace, at, at + 1, "workspace");
}

// The variable that a value whose bytes are made at `begin` becomes, where that may overwrite it at once.
nn::VariableOp Storage::replacedBy(Value value, int64_t begin) const {
  Value stored = value;
  while (!hazards.assignedTo(stored)) {
    Operation *user = stored.hasOneUse() ? *stored.user_begin() : nullptr;
    if (!user || !isView(user))
      return nullptr;
    stored = user->getResult(0);
  }
  nn::VariableOp variable = updatedBy(stored);
  if (!stored.hasOneUse() || dist::bytesOf(value.getType()) !=
                                 dist::bytesOf(dist::localType(cast<RankedTensorType>(variable.getType()))))
    return nullptr;
  auto readers = reads.find(variable.getSymName());
  bool isRead = readers != reads.end() &&
                llvm::any_of(readers->second, [&](Value read) { return liveness.lastUse(read) >= begin; });
  return isRead ? nullptr : variable;
}

// In place only where nobody else reads the source, which may happen while the collective is under way.
bool Storage::isReducedInPlace(Operation &op, Value source, int64_t end) const {
  bool isOnly = source.hasOneUse();
  for (Operation *def = source.getDefiningOp(); isOnly && def && isView(def);
       def = def->getOperand(0).getDefiningOp())
    isOnly = def->getOperand(0).hasOneUse();
  int buffer = of(source);
  return isOnly && !list[buffer].variable && !isa<BlockArgument>(source) &&
         source.getParentBlock() == op.getBlock() && list[buffer].end <= end + 1;
}

void Storage::visitCollective(Operation &op) {
  auto collective = cast<dist::CollectiveInterface>(op);
  Value source = collective.getSource(), result = collective.getOutcome();
  int64_t begin = liveness.start(&op), end = liveness.start(result.getDefiningOp());
  if (collective.getKind() == dist::CollectiveKind::AllReduce && isReducedInPlace(op, source, end))
    takeOver(result, of(source));
  else if (rt::collectiveTraits(collective.getKind()).yieldsAtRoot() && hasPlace(result))
    define(result, begin);
  else if (auto variable = replacedBy(result, begin))
    takeOver(result, ofVariable(variable));
  else
    bind(result, create(dist::bytesOf(result.getType()), begin, end + 1, categoryOf(result)));
  if (int64_t scratch = rt::collectiveScratchBytes(dist::collectiveSize(collective)))
    extras[&op] = create(scratch, begin, end + 1, "communication");
}

// What arrives has its bytes from the start; a copy of a variable's new value arrives where the variable
// rests, and one that a loop carries on where the one before lies.
void Storage::visitTransfer(Operation &op) {
  Operation *wait = *op.getResult(0).user_begin();
  Value result = wait->getResult(0), source = op.getOperand(0);
  int64_t begin = liveness.start(&op), end = liveness.start(wait);
  auto copy = dyn_cast<dist::CopyType>(result.getType());
  if (auto variable = copy ? replacedBy(result, begin) : nn::VariableOp())
    return takeOver(result, ofVariable(variable));
  if (auto carried = copy ? dist::carriedBefore(result) : BlockArgument())
    return takeOver(result, of(carried));
  StringRef category = list[of(source)].category;
  bind(result, create(dist::bytesOf(result.getType()), begin, end + 1, category,
                      copy ? copy.getTier() : Tier::Device));
}

// What it changes is changed in place; what it makes has its bytes from the start, and is what its first
// source is: converted copies of parameters count as these. Made of nothing, it is what it is used for.
void Storage::visitHostCall(dist::HostStartOp op) {
  Operation *wait = *op.getCall().user_begin();
  size_t changes = op.getChanges().size();
  for (auto [result, place] : llvm::zip(wait->getResults(), op.getChanges()))
    takeOver(result, of(op.getSources()[place]));
  for (Value made : wait->getResults().drop_front(changes)) {
    StringRef category =
        op.getSources().empty() ? categoryOf(made) : list[of(op.getSources().front())].category;
    bind(made, create(dist::bytesOf(made.getType()), liveness.start(op), liveness.end(wait) + 1, category,
                      Tier::Host));
  }
}

void Storage::visitPack(dist::PackOp op) {
  int64_t blocks = op.getBlocks(), at = liveness.start(op);
  SmallVector<int64_t> offsets = dist::packOffsets(op.getSources().getTypes(), blocks);
  int pack = ofPack(op);
  if (pack < 0)
    pack = create(dist::bytesOf(op.getType()), at, at + 1, categoryOf(op));
  bind(op, pack);
  SmallVector<int> &members = parts[op];
  for (auto [source, offset] : llvm::zip(op.getSources(), offsets)) {
    int64_t bytes = dist::bytesOf(source.getType()), block = bytes / blocks;
    if (blocks == 1 && isPart(of(source), pack, offset))
      members.push_back(of(source));
    else
      members.push_back(part(pack, offset, (blocks - 1) * offsets.back() + block));
  }
}

void Storage::visitUnpack(dist::UnpackOp op) {
  int64_t blocks = op.getBlocks();
  int pack = of(op.getSource());
  SmallVector<int64_t> offsets = dist::packOffsets(op.getResultTypes(), blocks);
  SmallVector<int> members;
  for (auto [result, offset] : llvm::zip(op.getResults(), offsets)) {
    int64_t block = dist::bytesOf(result.getType()) / blocks;
    if (blocks > 1) {
      if (auto variable = replacedBy(result, liveness.start(op)))
        takeOver(result, ofVariable(variable));
      else
        define(result);
    }
    members.push_back(part(pack, offset, (blocks - 1) * offsets.back() + block));
    if (blocks == 1)
      bind(result, members.back());
  }
  parts[op] = members;
}

// Carried values keep one buffer from before the loop to its last use behind it, which is that of the first
// one where the loop has that alone.
void Storage::visitLoop(dist::LoopOp op) {
  for (auto [init, carried, result] : llvm::zip(op.getInits(), op.getCarried(), op.getResults())) {
    const bool isMade = has(init), isOnly = isMade && init.hasOneUse();
    if (isa<dist::CopyType>(init.getType()) || (isMade && isMadeInPlaceOf(result, init)) ||
        (isOnly && !hasPlace(result) && diesAt(init, op)))
      takeOver(result, of(init));
    else
      define(result);
    bind(carried, of(result));
    extend(of(result), liveness.end(op) + 1);
  }
  visit(*op.getBody());
}
