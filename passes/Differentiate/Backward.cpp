#include "passes/Differentiate/Backward.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace tessera;
using namespace tessera::nn;

/// The values of the block that depend on a trained variable through operators that have a gradient. An
/// operator without one (floor, comparisons) is constant almost everywhere.
static DenseSet<Value> findActive(Block &block, const llvm::StringSet<> &trained) {
  DenseSet<Value> active;
  for (Operation &op : block) {
    auto read = dyn_cast<ReadOp>(op);
    bool leads = read ? trained.contains(read.getVariable())
                      : isa<DifferentiableOpInterface>(op) &&
                            llvm::any_of(op.getOperands(), [&](Value v) { return active.contains(v); });
    if (!leads)
      continue;
    for (Value result : op.getResults())
      if (isa<FloatType>(cast<ShapedType>(result.getType()).getElementType()))
        active.insert(result);
  }
  return active;
}

/// The sum of the cotangents of one value, marked with the value that it belongs to.
static Value accumulate(OpBuilder &builder, Location loc, ArrayRef<Value> terms, const Twine &of) {
  auto acc = AccOp::create(builder, loc, terms);
  acc->setAttr("nn.cotangent_of", builder.getStringAttr(of));
  return acc;
}

static bool isHalf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && (type.getElementType().isBF16() || type.getElementType().isF16());
}

/// Whether `op` sums, so that its result is there in f32 before it is rounded.
static bool isSum(Operation *op) {
  auto factorOp = dyn_cast<FactorOpInterface>(op);
  return factorOp && llvm::any_of(factorOp.getFactorRule().factors, [](const Factor &f) { return f.kind == FactorKind::Reduction; });
}

/// Whether `value`, of bf16 or f16, can as well be f32: it is a sum, or made by moving and adding such, and nobody else uses it.
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

/// The gradient of a parameter that is rounded where it is used is rounded nowhere: what computes it gives f32.
static void widenGradient(Value gradient) {
  for (OpOperand &term : gradient.getDefiningOp()->getOpOperands()) {
    auto conversion = term.get().getDefiningOp<CastOp>();
    if (!conversion || !conversion->hasOneUse() || !isHalf(conversion.getOperand()) || !conversion.getTo().isF32())
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
  // A variable's gradient is complete once the first operator that reads it has been gone through: then it is summed, so that it need not
  // be kept in the form it was computed in.
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

  llvm::MapVector<StringRef, Value> gradients;
  auto complete = [&](Operation *op) {
    for (StringRef variable : completes.lookup(op))
      if (auto &list = variableTerms[variable]; !list.empty())
        gradients[variable] = accumulate(builder, op->getLoc(), list, "@" + variable);
  };
  for (Operation *op : llvm::reverse(forward)) {
    SmallVector<Value> cotangents(op->getNumResults());
    bool isReached = false;
    auto id = op->getAttrOfType<StringAttr>("nn.id");
    for (auto [r, result] : llvm::enumerate(op->getResults()))
      if (auto it = terms.find(result); it != terms.end() && active.contains(result)) {
        cotangents[r] = accumulate(builder, op->getLoc(), it->second, id.getValue() + "#" + Twine(r));
        isReached = true;
      }
    if (!isReached) {
      complete(op);
      continue;
    }
    SmallVector<bool> wanted;
    for (Value operand : op->getOperands())
      wanted.push_back(active.contains(operand));
    GradBuilder grad(op, wanted, cotangents);
    grad.setInsertionPointToEnd(&block);
    if (failed(cast<DifferentiableOpInterface>(op).buildVjp(grad, cotangents)))
      return failure();
    grad.finish();
    for (auto [operand, isWanted, cotangent] : llvm::zip(op->getOperands(), wanted, grad.results()))
      if (isWanted && cotangent) {
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
