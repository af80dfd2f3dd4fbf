#include "passes/Differentiate/Backward.h"
#include "dialects/nn/Attributes.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace tessera;
using namespace tessera::nn;

static bool isFloating(Value value) { return isa<FloatType>(getElementTypeOrSelf(value.getType())); }

/// Whether results of `op` follow small changes of its operands. Where they do not, as those of floor and
/// comparisons, its gradient is zero; nothing passes where results, or operands, are no floating numbers.
static bool passesGradients(Operation *op) {
  auto none = dyn_cast<NotDifferentiableOpInterface>(op);
  return !(none && none.hasZeroGradient()) && llvm::any_of(op->getResults(), isFloating);
}

StringRef tessera::whyNoGradient(Operation *op) {
  if (auto none = dyn_cast<NotDifferentiableOpInterface>(op))
    return none.whyNotDifferentiable();
  return isa<DifferentiableOpInterface>(op) ? "gives integers or truth values, which change in steps"
                                            : "does not say what its gradient is";
}

/// The values of the block that depend on a trained variable and follow small changes of it.
static DenseSet<Value> findActive(Block &block, const llvm::StringSet<> &trained) {
  DenseSet<Value> active;
  for (Operation &op : block) {
    auto read = dyn_cast<ReadOp>(op);
    bool leads = read ? trained.contains(read.getVariable())
                      : passesGradients(&op) &&
                            llvm::any_of(op.getOperands(), [&](Value v) { return active.contains(v); });
    if (leads)
      active.insert_range(llvm::make_filter_range(op.getResults(), isFloating));
  }
  return active;
}

/// The trained variable that an active value depends on; of several the one that is met first.
static StringRef variableOf(Value value, const DenseSet<Value> &active) {
  while (!value.getDefiningOp<ReadOp>())
    value = *llvm::find_if(value.getDefiningOp()->getOperands(), [&](Value v) { return active.contains(v); });
  return value.getDefiningOp<ReadOp>().getVariable();
}

/// The variables that `root` follows small changes of, and with `needed` all values that it depends on.
static llvm::StringSet<> followed(Block &block, Value root, DenseSet<Value> &needed) {
  DenseSet<Value> follows = {root};
  needed.insert(root);
  llvm::StringSet<> variables;
  for (Operation &op : llvm::reverse(block)) {
    auto isIn = [&](const DenseSet<Value> &set) {
      return llvm::any_of(op.getResults(), [&](Value v) { return set.contains(v); });
    };
    if (isIn(needed))
      needed.insert(op.operand_begin(), op.operand_end());
    if (!isIn(follows))
      continue;
    if (auto read = dyn_cast<ReadOp>(op))
      variables.insert(read.getVariable());
    else if (passesGradients(&op))
      follows.insert_range(llvm::make_filter_range(op.getOperands(), isFloating));
  }
  return variables;
}

Ungraded tessera::withoutGradient(Block &block, Value root, ArrayRef<StringRef> variables) {
  DenseSet<Value> needed;
  llvm::StringSet<> graded = followed(block, root, needed);
  Ungraded found;
  for (StringRef variable : variables) {
    if (graded.contains(variable))
      continue;
    llvm::StringSet<> own;
    own.insert(variable);
    DenseSet<Value> active = findActive(block, own);
    auto cuts = [&](Operation &op) {
      return llvm::any_of(op.getOperands(), [&](Value v) { return active.contains(v); }) &&
             llvm::any_of(op.getResults(),
                          [&](Value v) { return needed.contains(v) && !active.contains(v); });
    };
    auto first = llvm::find_if(block, cuts);
    found[first == block.end() ? nullptr : &*first].push_back(variable);
  }
  return found;
}

/// A message that no gradient passes `op`, to those of `operands` that are active.
static InFlightDiagnostic refuse(Operation *op, ValueRange operands, const DenseSet<Value> &active,
                                 const Twine &why) {
  StringRef variable =
      variableOf(*llvm::find_if(operands, [&](Value v) { return active.contains(v); }), active);
  return op->emitOpError() << why << ", and the loss depends through it on the trained parameter \""
                           << variable << "\"; leave that out of training (--frozen " << variable
                           << ") or take another loss";
}

/// The sum of the cotangents of one value, marked with the value that it belongs to.
static Value accumulate(OpBuilder &builder, Location loc, ArrayRef<Value> terms, Attribute of) {
  auto acc = AccOp::create(builder, loc, terms);
  nn::kCotangentOf.set(acc, of);
  return acc;
}

static bool isHalf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && (type.getElementType().isBF16() || type.getElementType().isF16());
}

/// Whether `op` sums, so that its result is there in f32 before it is rounded.
static bool isSum(Operation *op) {
  auto factorOp = dyn_cast<FactorOpInterface>(op);
  return factorOp && llvm::any_of(factorOp.getFactorRule().factors,
                                  [](const Factor &f) { return f.kind == FactorKind::Reduction; });
}

/// Whether `value`, of bf16 or f16, can as well be f32: it is a sum, or made by moving and adding such, and
/// nobody else uses it.
static bool canBeWide(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getNumResults() != 1 || !value.hasOneUse() || !isHalf(value))
    return false;
  if (isSum(op))
    return true;
  bool moves = isa<AccOp>(op) || (op->getNumOperands() == 1 && isa<FactorOpInterface>(op));
  return moves && llvm::all_of(op->getOperands(), canBeWide);
}

static void makeWide(Value value, Type element) {
  value.setType(cast<RankedTensorType>(value.getType()).clone(element));
  if (Operation *op = value.getDefiningOp(); !isSum(op))
    for (Value operand : op->getOperands())
      makeWide(operand, element);
}

/// The gradient of a parameter that is rounded where it is used is rounded nowhere: what computes it gives
/// f32.
static void widenGradient(Value gradient) {
  for (OpOperand &term : gradient.getDefiningOp()->getOpOperands()) {
    auto conversion = term.get().getDefiningOp<CastOp>();
    if (!conversion || !conversion->hasOneUse() || !isHalf(conversion.getOperand()) ||
        !conversion.getTo().isF32())
      continue;
    Value inner = conversion.getOperand();
    if (!canBeWide(inner))
      continue;
    makeWide(inner, conversion.getTo());
    term.set(inner);
    conversion->erase();
  }
}

FailureOr<llvm::MapVector<StringRef, Value>> tessera::buildBackward(Block &block, Value root, Value seed,
                                                                    const llvm::StringSet<> &trained) {
  DenseSet<Value> active = findActive(block, trained);
  SmallVector<Operation *> forward;
  for (Operation &op : block)
    forward.push_back(&op);
  // A variable's gradient is complete once the first operator that reads it has been gone through: then it is
  // summed, so that it need not be kept in the form it was computed in.
  DenseMap<Operation *, SmallVector<StringRef, 1>> completes;
  llvm::StringSet<> met;
  for (Operation *op : forward)
    for (Value operand : op->getOperands())
      if (auto read = operand.getDefiningOp<ReadOp>(); read && trained.contains(read.getVariable()))
        if (met.insert(read.getVariable()).second)
          completes[op].push_back(read.getVariable());
  OpBuilder builder = OpBuilder::atBlockEnd(&block);
  DenseMap<Value, SmallVector<Value, 2>> terms;
  llvm::StringMap<SmallVector<Value, 2>> variableTerms;
  terms[root].push_back(seed);
  if (root.getDefiningOp<ReadOp>())
    return emitError(root.getLoc()) << "the loss is a parameter itself, which no data can train", failure();

  llvm::MapVector<StringRef, Value> gradients;
  auto complete = [&](Operation *op) {
    for (StringRef variable : completes.lookup(op))
      if (auto &list = variableTerms[variable]; !list.empty())
        gradients[variable] =
            accumulate(builder, op->getLoc(), list, FlatSymbolRefAttr::get(builder.getContext(), variable));
  };
  for (Operation *op : llvm::reverse(forward)) {
    bool isMet =
        llvm::any_of(op->getResults(), [&](Value v) { return terms.contains(v) && active.contains(v); });
    if (!isMet) {
      complete(op);
      continue;
    }
    auto vjp = dyn_cast<DifferentiableOpInterface>(op);
    if (!vjp)
      return refuse(op, op->getOperands(), active, "has no gradient, because it " + whyNoGradient(op)),
             failure();
    SmallVector<Value> cotangents(op->getNumResults());
    auto id = nn::kId.of(op);
    for (auto [r, result] : llvm::enumerate(op->getResults()))
      if (auto it = terms.find(result); it != terms.end() && active.contains(result))
        cotangents[r] = accumulate(builder, op->getLoc(), it->second,
                                   ForwardValueAttr::get(builder.getContext(), id.getValue(), r));
    SmallVector<bool> wanted;
    for (Value operand : op->getOperands())
      wanted.push_back(active.contains(operand));
    GradBuilder grad(op, wanted, cotangents);
    grad.setInsertionPointToEnd(&block);
    if (failed(vjp.buildVjp(grad, cotangents)))
      return failure();
    grad.finish();
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      if (!wanted[i])
        continue;
      Value cotangent = grad.results()[i];
      if (!cotangent)
        return refuse(op, {operand}, active, "has no gradient in operand " + Twine(i)), failure();
      if (auto read = operand.getDefiningOp<ReadOp>())
        variableTerms[read.getVariable()].push_back(cotangent);
      else
        terms[operand].push_back(cotangent);
    }
    complete(op);
  }
  for (auto &[variable, gradient] : gradients)
    widenGradient(gradient);
  return gradients;
}
