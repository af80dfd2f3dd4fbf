// Writes decided placements into types, with a reshard wherever a value is used elsewhere than at home.
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pipeline.h"
#include "passes/Propagate/Propagation.h"

using namespace mlir;
using namespace tessera;
using dist::AxisList;
using dist::AxisRef;
using dist::Layout;

/// Writes the types of one function. Placements are looked up by the original values, so types and uses
/// change in step with the walk.
class Propagation::Emission {
public:
  Emission(Propagation &decided, func::FuncOp func) : decided(decided), func(func), b(func.getContext()) {}
  void run();

private:
  /// A value as a user wants it: at home, or in a copy that later users share.
  Value valueAt(Value original, Operation *user, const Placement &use);
  /// A new reshard to `placement`, which belongs to the part of a pipeline that `like` does.
  Value reshard(Operation *like, Value value, Value original, const Placement &placement);
  /// Gives a result the type of its layout as computed, and moves it to its home.
  void emitResult(Value result, const Placement &raw);
  void emitReturn(func::ReturnOp op);
  void emitAcc(nn::AccOp acc);
  /// The terms of one layout are added, each sum is moved once.
  SmallVector<Value> sumsAtHome(nn::AccOp acc, const Placement &home);
  void emitOp(Operation *op);

  bool sameLayout(Value value, const Placement &one, const Placement &other) const {
    return decided.layout(value, one, true) == decided.layout(value, other, true);
  }

  struct Copy {
    Placement placement;
    int64_t chunk; // of a pipeline, which has copies of its own; -1: of none
    bool backward; // gathered again for the backward
    Value value;
  };
  Propagation &decided;
  func::FuncOp func;
  OpBuilder b;
  DenseMap<Value, Value> atHome; // by original value, where that is another
  DenseMap<Value, std::vector<Copy>> copies;
  SmallVector<Operation *> dead;
};

Value Propagation::Emission::valueAt(Value original, Operation *user, const Placement &use) {
  Placement home = decided.homeOf(original, user);
  Value value = original;
  if (isa<BlockArgument>(original))
    home = decided.inputHomes[original];
  else if (auto it = atHome.find(original); it != atHome.end())
    value = it->second;
  if (sameLayout(original, home, use))
    return value;
  // Out of its pieces first, once for all users; what a pattern gathers beyond that is as without ZeRO.
  bool isOfPieces = !home.flat.empty() && decided.isFree(original) && decided.zero.gathersOnce();
  if (isOfPieces && !sameLayout(original, home.withoutFlat(), use)) {
    home = home.withoutFlat();
    value = valueAt(original, user, home);
    isOfPieces = false;
  }
  // A chunk of a pipeline has copies of its own: what crosses to another stage is the value at its home.
  std::optional<dist::PipelinePart> part;
  if (!decided.isFree(original))
    part = dist::PipelinePart::of(user);
  if (!part && !decided.isFree(original) && original.getDefiningOp())
    part = dist::PipelinePart::of(original.getDefiningOp());
  int64_t chunk = part ? part->chunk : -1;
  auto decision = decided.decisions.find(user);
  bool keepsGathered = decision != decided.decisions.end() && decision->second.keepsGathered;
  bool gathers =
           !isOfPieces && decided.grows(original, home, use) && decided.zero.gathersAgain(keepsGathered),
       backward = gathers && runsBackward(user);
  for (const Copy &copy : copies[original])
    if (copy.placement == use && copy.chunk == chunk && copy.backward == backward)
      return copy.value;
  b.setInsertionPoint(user);
  auto copy = dist::ReshardOp::create(b, user->getLoc(), decided.typed(original, use), value);
  if (part)
    part->setOn(copy);
  if (gathers)
    dist::kGather.set(copy, dist::GatherForAttr::get(b.getContext(), backward ? dist::GatherFor::Backward
                                                                              : dist::GatherFor::Forward));
  ++decided.numReshards;
  copies[original].push_back({use, chunk, backward, copy});
  return copy;
}

Value Propagation::Emission::reshard(Operation *like, Value value, Value original,
                                     const Placement &placement) {
  auto moved = dist::ReshardOp::create(b, like->getLoc(), decided.typed(original, placement), value);
  dist::copyPipelinePart(like, moved);
  ++decided.numReshards;
  return moved;
}

void Propagation::Emission::emitResult(Value result, const Placement &raw) {
  Placement home = decided.homes.lookup(result);
  result.setType(decided.typed(result, raw));
  if (sameLayout(result, raw, home))
    return;
  b.setInsertionPointAfterValue(result);
  atHome[result] = reshard(result.getDefiningOp(), result, result, home);
  // Whoever wants it as it was computed need not move it back.
  if (auto part = dist::PipelinePart::of(result.getDefiningOp()); raw.partial.empty())
    for (bool backward : {false, true})
      copies[result].push_back({raw, part ? part->chunk : -1, backward, result});
}

void Propagation::Emission::emitReturn(func::ReturnOp op) {
  for (OpOperand &operand : op->getOpOperands())
    operand.set(valueAt(operand.get(), op, decided.homeOf(operand.get(), op).withoutPartial().withoutFlat()));
}

SmallVector<Value> Propagation::Emission::sumsAtHome(nn::AccOp acc, const Placement &home) {
  Value result = acc.getResult();
  std::vector<std::pair<Placement, SmallVector<Value>>> groups;
  for (Value term : acc.getTerms()) {
    Placement at = decided.homeOf(term, acc);
    auto it = llvm::find_if(groups, [&](auto &g) { return sameLayout(result, g.first, at); });
    if (it == groups.end())
      it = groups.insert(groups.end(), {at, {}});
    it->second.push_back(valueAt(term, acc, at));
  }
  b.setInsertionPoint(acc);
  SmallVector<Value> sums;
  for (auto &[at, terms] : groups) {
    Value sum = terms[0];
    if (terms.size() > 1) {
      auto add = nn::AccOp::create(b, acc.getLoc(), decided.typed(result, at), terms);
      dist::copyPipelinePart(acc, add);
      sum = add.getResult();
    }
    sums.push_back(sameLayout(result, at, home) ? sum : reshard(acc, sum, result, home));
  }
  return sums;
}

void Propagation::Emission::emitAcc(nn::AccOp acc) {
  Value result = acc.getResult();
  Placement home = decided.homes.lookup(result);
  // The terms of a sum over stages are on different ranks.
  if (dist::kOverStages.isOn(acc)) {
    for (OpOperand &operand : acc->getOpOperands())
      operand.set(valueAt(operand.get(), acc, home));
    result.setType(decided.typed(result, home));
    return;
  }
  SmallVector<Value> sums = sumsAtHome(acc, home);
  if (sums.size() == 1) {
    atHome[result] = sums[0];
    dead.push_back(acc);
    return;
  }
  acc->setOperands(sums);
  result.setType(decided.typed(result, home));
}

void Propagation::Emission::emitOp(Operation *op) {
  const Decision &d = decided.decisions.at(op);
  if (d.expander)
    dist::kExpand.set(op, d.expander);
  AxisList partial = decided.inheritedPartial(op, d);
  for (OpOperand &operand : op->getOpOperands())
    if (isa<RankedTensorType>(operand.get().getType())) {
      Placement use = d.use(operand.getOperandNumber());
      if (!decided.homeOf(operand.get(), op).partial.empty())
        use.partial = partial;
      operand.set(valueAt(operand.get(), op, use));
    }
  for (auto [r, result] : llvm::enumerate(op->getResults()))
    emitResult(result, rawOf(d, r, partial));
}

void Propagation::Emission::run() {
  Block &body = func.getBody().front();
  SmallVector<Operation *> ops;
  for (Operation &op : body)
    ops.push_back(&op);
  for (BlockArgument arg : func.getArguments())
    arg.setType(decided.typed(arg, decided.inputHomes[arg]));
  for (Operation *op : ops) {
    if (isa<nn::ReadOp>(op)) {
      Value v = op->getResult(0);
      v.setType(decided.typed(v, decided.homes.lookup(v)));
    } else if (auto assign = dyn_cast<nn::AssignOp>(op)) {
      op->setOperand(0, valueAt(assign.getValue(), op, decided.storage[assign.getVariable()]));
    } else if (auto end = dyn_cast<func::ReturnOp>(op)) {
      emitReturn(end);
    } else if (auto acc = dyn_cast<nn::AccOp>(op)) {
      emitAcc(acc);
    } else {
      emitOp(op);
    }
  }
  for (Operation *op : llvm::reverse(dead))
    op->erase();
  func.setType(
      FunctionType::get(func.getContext(), body.getArgumentTypes(), body.getTerminator()->getOperandTypes()));
}

void Propagation::emit(func::FuncOp func) { Emission(*this, func).run(); }

void Propagation::emitVariables() {
  for (auto variable : module.getOps<nn::VariableOp>()) {
    auto type = cast<RankedTensorType>(variable.getType());
    Layout result;
    size_t k = 0;
    auto it = storage.find(variable.getSymName());
    for (auto &dim : atoms.ofVariable(variable.getSymName())) {
      SmallVector<dist::Atom, 1> list;
      for (AtomId id : dim) {
        AtomId one = atoms.representative(id);
        auto p = padded.find({one.cls, one.index});
        list.push_back(dist::Atom(atoms.size(id), p == padded.end() ? atoms.size(id) : p->second,
                                  it == storage.end() ? AxisList() : it->second.atoms[k]));
        if (auto order = zigzag.find({one.cls, one.index}); order != zigzag.end())
          list.back().zigzag = order->second;
        ++k;
      }
      result.dims.push_back(list);
    }
    if (it != storage.end())
      result.flat = it->second.flat;
    variable.setType(
        dist::withLayout(RankedTensorType::get(type.getShape(), type.getElementType()), result.canonical()));
  }
}
