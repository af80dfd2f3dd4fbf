// Biases, activations, their derivatives and biases' gradients as parts of products.
#include "dialects/dist/Attributes.h"
#include "dialects/nn/Epilogue.h"
#include "passes/Kernels/Generated.h"
#include "passes/Schedule/PanelLoop.h"
#include "passes/Schedule/Passes.h"

namespace tessera {
#define GEN_PASS_DEF_FOLDEPILOGUES
#include "passes/Schedule/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

namespace {

/// A contraction and what of its surroundings it takes in.
struct Fold {
  nn::ContractOp contract;
  nn::Epilogue end = {};
  /// What the result, the pre-activation and the sums stand for so far; those but the first may be null.
  Value result = contract.getResult(), kept = {}, sums = {};
  bool sumsLhs = false;

  explicit Fold(nn::ContractOp contract) : contract(contract) {}
  /// What the fused operator reads.
  SmallVector<Value, 4> operands() const {
    SmallVector<Value, 4> values(contract->getOperands());
    for (Value value : {end.bias, end.at})
      if (value)
        values.push_back(value);
    return values;
  }
  bool any() const { return end.bias || end.activation != "none" || sums; }
  /// The values that the fused operator has results for.
  SmallVector<Value, 3> replaced() const {
    SmallVector<Value, 3> values = {result};
    for (Value value : {kept, sums})
      if (value)
        values.push_back(value);
    return values;
  }
};

std::optional<nn::Epilogue> epilogueOf(OpOperand &use, Block *block) {
  auto op = dyn_cast<nn::EpilogueOpInterface>(use.getOwner());
  return op && op->getBlock() == block ? op.getEpilogue(use.getOperandNumber()) : std::nullopt;
}

/// Follows the result through a bias to an activation, or to the product with one's derivative. An activation
/// that kernels alone read is theirs: its result takes no memory there.
void follow(Fold &fold, const nn::Library &library) {
  Block *block = fold.contract->getBlock();
  if (fold.result.hasOneUse())
    if (auto next = epilogueOf(*fold.result.use_begin(), block); next && (next->bias || next->at)) {
      fold.end = *next;
      fold.result = fold.result.use_begin()->getOwner()->getResult(0);
      if (next->at)
        return;
    }
  for (OpOperand &use : fold.result.getUses())
    if (auto next = epilogueOf(use, block); next && !next->bias && !next->at) {
      if (llvm::all_of(use.getOwner()->getUsers(),
                       [&](Operation *user) { return isGenerated(user, library); }))
        return;
      if (!fold.result.hasOneUse())
        fold.kept = fold.result;
      fold.end.activation = next->activation;
      fold.result = use.getOwner()->getResult(0);
      return;
    }
}

/// Finds a sum of one operand over what the contraction sums over.
void findSums(Fold &fold) {
  nn::ContractOp op = fold.contract;
  for (auto [isLhs, operand, mine, others] :
       {std::tuple(true, op.getLhs(), op.getLhsLetters(), op.getRhsLetters()),
        std::tuple(false, op.getRhs(), op.getRhsLetters(), op.getLhsLetters())}) {
    SmallVector<int64_t> summed;
    for (auto [d, letter] : llvm::enumerate(mine))
      if (!op.getOutLetters().contains(letter))
        summed.push_back(d);
    // The other operand's letters would be summed with it.
    if (summed.empty() ||
        llvm::any_of(others, [&](char c) { return !op.getOutLetters().contains(c) && !mine.contains(c); }))
      continue;
    for (Operation *user : operand.getUsers())
      if (auto reduce = dyn_cast<nn::ReduceOp>(user); reduce && reduce->getBlock() == op->getBlock() &&
                                                      reduce.getKind() == "sum" &&
                                                      reduce.getDims() == ArrayRef<int64_t>(summed)) {
        fold.sums = reduce.getResult();
        fold.sumsLhs = isLhs;
        return;
      }
  }
}

/// Where the fused operator can stand: at the contraction if possible, behind all that it reads, before all
/// that reads it, in one step of a pipeline. Null if nowhere.
Operation *placeOf(const Fold &fold) {
  Block *block = fold.contract->getBlock();
  Operation *at = fold.contract, *first = at, *last = at;
  for (Value value : fold.operands())
    if (Operation *def = value.getDefiningOp(); def && def->getBlock() == block && at->isBeforeInBlock(def))
      at = def->getNextNode();
  SmallVector<Value, 3> replaced = fold.replaced();
  SmallVector<Operation *> members = {fold.contract};
  for (Value value : replaced)
    members.push_back(value.getDefiningOp());
  if (fold.end.bias && fold.end.activation != "none" && !fold.kept)
    members.push_back(fold.result.getDefiningOp()->getOperand(0).getDefiningOp());
  auto isMember = [&](Operation *op) { return llvm::is_contained(members, op); };
  for (Operation *member : members) {
    first = member->isBeforeInBlock(first) ? member : first;
    last = last->isBeforeInBlock(member) ? member : last;
  }
  Operation *until = nullptr;
  for (Value value : replaced)
    for (Operation *user : value.getUsers())
      if (Operation *here = block->findAncestorOpInBlock(*user);
          here && !isMember(here) && (!until || here->isBeforeInBlock(until)))
        until = here;
  if (until && until->isBeforeInBlock(at)) {
    // A sum that is read before the contraction: both may be computed earlier.
    at = until;
    for (Value value : fold.operands())
      if (Operation *def = value.getDefiningOp();
          def && def->getBlock() == block && !def->isBeforeInBlock(at))
        return nullptr;
  }
  first = at->isBeforeInBlock(first) ? at : first;
  last = last->isBeforeInBlock(at) ? at : last;
  for (Operation *op = first; op != last; op = op->getNextNode())
    if (isa<dist::StepOp>(op))
      return nullptr;
  return at;
}

struct FoldEpiloguesPass : tessera::impl::FoldEpiloguesBase<FoldEpiloguesPass> {
  using FoldEpiloguesBase::FoldEpiloguesBase;

  LogicalResult initialize(MLIRContext *context) override {
    library = nn::findLibrary(target, UnknownLoc::get(context));
    return success(library);
  }

  void runOnOperation() override {
    dist::When when = dist::whenOf(dist::kStream, getOperation());
    SmallVector<nn::ContractOp> contracts;
    getOperation().walk([&](nn::ContractOp op) { contracts.push_back(op); });
    llvm::DenseMap<Block *, std::unique_ptr<Hazards>> hazards;
    for (nn::ContractOp op : contracts) {
      std::unique_ptr<Hazards> &here = hazards[op->getBlock()];
      if (!here)
        here = std::make_unique<Hazards>(*op->getBlock());
      if (PanelLoop::chosen(cast<nn::PanelOpInterface>(op.getOperation()), when, *library, threads, *here))
        continue;
      Fold whole(op), sums(op);
      follow(whole, *library);
      findSums(sums);
      if (!(whole.any() && fuse(whole)) && sums.any())
        fuse(sums);
    }
  }

  bool fuse(const Fold &fold) {
    Operation *place = placeOf(fold);
    if (!place)
      return false;
    nn::ContractOp contract = fold.contract;
    OpBuilder b(place);
    auto typeOf = [](Value value) { return value ? value.getType() : Type(); };
    auto fused = nn::FusedContractOp::create(
        b, contract.getLoc(), fold.result.getType(), typeOf(fold.kept), typeOf(fold.sums), contract.getLhs(),
        contract.getRhs(), fold.end.bias, fold.end.at, contract.getLhsLettersAttr(),
        contract.getRhsLettersAttr(), contract.getOutLettersAttr(), b.getStringAttr(fold.end.activation),
        fold.sums ? b.getStringAttr(fold.sumsLhs ? "lhs" : "rhs") : StringAttr());
    if (!library->computes(fused)) {
      fused->erase();
      return false;
    }
    // Gives it a number between its neighbours' while they have one; else the whole block would get new ones.
    (void)fused->isBeforeInBlock(contract);
    fused->setDiscardableAttrs(contract->getDiscardableAttrDictionary());
    numBiases += fold.end.bias != nullptr;
    numActivations += fold.end.activation != "none" && !fold.end.at;
    numDerivatives += fold.end.at != nullptr;
    numSums += fold.sums != nullptr;
    // Users go first: the result's operator, the bias' addition, the contraction.
    SmallVector<Operation *> dead;
    for (auto [from, to] : llvm::zip(fold.replaced(), fused.getResults())) {
      dead.push_back(from.getDefiningOp());
      from.replaceAllUsesWith(to);
    }
    if (Operation *add = fold.end.bias && fold.end.activation != "none" && !fold.kept
                             ? dead.front()->getOperand(0).getDefiningOp()
                             : nullptr)
      dead.insert(dead.begin() + 1, add);
    if (!llvm::is_contained(dead, contract.getOperation()))
      dead.push_back(contract);
    for (Operation *op : dead)
      op->erase();
    return true;
  }

  const nn::Library *library = nullptr;
};

} // namespace
