// Writes decided placements into types, with a reshard wherever a value is used elsewhere than at home.
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pipeline.h"
#include "passes/Propagate/Propagation.h"

using namespace mlir;
using namespace tessera;
using dist::AxisList;
using dist::AxisRef;
using dist::Layout;

LogicalResult Propagation::emit(func::FuncOp func) {
  OpBuilder b(func.getContext());
  Block &body = func.getBody().front();
  SmallVector<Operation *> ops, dead;
  for (Operation &op : body)
    ops.push_back(&op);
  // Placements are looked up by the original values, so types and uses change in step with the walk.
  DenseMap<Value, Value> now; // original value -> the value at its home
  for (BlockArgument arg : func.getArguments()) {
    arg.setType(typed(arg, inputHomes[arg]));
    b.setInsertionPointToStart(&body);
  }
  auto keepsGathered = [&](Operation *user) {
    auto it = decisions.find(user);
    return it != decisions.end() && it->second.keepsGathered;
  };
  auto current = [&](Value original, Operation *user, const Placement &use) -> Value {
    Placement home = homeOf(original, user);
    Value value = original;
    if (isa<BlockArgument>(original))
      home = inputHomes[original];
    else if (auto it = now.find(original); it != now.end())
      value = it->second;
    b.setInsertionPoint(user);
    if (layout(original, home, true) == layout(original, use, true))
      return value;
    // A chunk of a pipeline has copies of its own: what crosses to another stage is the value at its home.
    std::optional<dist::PipelinePart> part;
    if (!isFree(original))
      part = dist::PipelinePart::of(user);
    if (!part && !isFree(original) && original.getDefiningOp())
      part = dist::PipelinePart::of(original.getDefiningOp());
    int64_t chunk = part ? part->chunk : -1;
    bool gathers =
             zero.regather && grows(original, home, use) && (zero.regatherAlways || !keepsGathered(user)),
         backward = gathers && runsBackward(user);
    for (const Copy &copy : copies[original])
      if (copy.placement == use && copy.chunk == chunk && copy.backward == backward)
        return copy.value;
    auto copy = dist::ReshardOp::create(b, user->getLoc(), typed(original, use), value);
    if (part)
      part->setOn(copy);
    if (gathers)
      dist::kGather.set(copy, dist::GatherForAttr::get(b.getContext(), backward ? dist::GatherFor::Backward
                                                                                : dist::GatherFor::Forward));
    ++numReshards;
    copies[original].push_back({use, chunk, backward, copy});
    return copy;
  };
  auto finish = [&](Value result, const Placement &raw) {
    Placement home = homes.lookup(result);
    result.setType(typed(result, raw));
    if (layout(result, raw, true) == layout(result, home, true))
      return;
    b.setInsertionPointAfterValue(result);
    Value moved = dist::ReshardOp::create(b, result.getLoc(), typed(result, home), result);
    dist::copyPipelinePart(result.getDefiningOp(), moved.getDefiningOp());
    ++numReshards;
    now[result] = moved;
    // Whoever wants it as it was computed need not move it back.
    if (auto part = dist::PipelinePart::of(result.getDefiningOp()); raw.partial.empty())
      for (bool backward : {false, true})
        copies[result].push_back({raw, part ? part->chunk : -1, backward, result});
  };
  for (Operation *op : ops) {
    if (isa<nn::ReadOp>(op)) {
      Value v = op->getResult(0);
      v.setType(typed(v, homes.lookup(v)));
      continue;
    }
    if (auto assign = dyn_cast<nn::AssignOp>(op)) {
      op->setOperand(0, current(assign.getValue(), op, storage[assign.getVariable()]));
      continue;
    }
    if (isa<func::ReturnOp>(op)) {
      for (OpOperand &operand : op->getOpOperands())
        operand.set(current(operand.get(), op, homeOf(operand.get(), op).withoutPartial().withoutFlat()));
      continue;
    }
    if (auto acc = dyn_cast<nn::AccOp>(op)) {
      Value result = acc.getResult();
      Placement home = homes.lookup(result);
      // The terms of a sum over stages are on different ranks.
      if (dist::kOverStages.isOn(acc)) {
        for (OpOperand &operand : acc->getOpOperands())
          operand.set(current(operand.get(), acc, home));
        result.setType(typed(result, home));
        continue;
      }
      // Add the terms of one layout, move each sum once, add the sums.
      std::vector<std::pair<Placement, SmallVector<Value>>> groups;
      for (Value term : acc.getTerms()) {
        Placement at = homeOf(term, op);
        auto it = llvm::find_if(
            groups, [&](auto &g) { return layout(result, g.first, true) == layout(result, at, true); });
        if (it == groups.end())
          it = groups.insert(groups.end(), {at, {}});
        it->second.push_back(current(term, op, at));
      }
      b.setInsertionPoint(op);
      SmallVector<Value> sums;
      for (auto &[at, terms] : groups) {
        Value sum = terms[0];
        if (terms.size() > 1) {
          auto add = nn::AccOp::create(b, op->getLoc(), typed(result, at), terms);
          dist::copyPipelinePart(acc, add);
          sum = add.getResult();
        }
        if (layout(result, at, true) != layout(result, home, true)) {
          sum = dist::ReshardOp::create(b, op->getLoc(), typed(result, home), sum);
          dist::copyPipelinePart(acc, sum.getDefiningOp());
          ++numReshards;
        }
        sums.push_back(sum);
      }
      if (sums.size() == 1) {
        now[result] = sums[0];
        dead.push_back(acc);
        continue;
      }
      acc->setOperands(sums);
      result.setType(typed(result, home));
      continue;
    }
    const Decision &d = decisions.at(op);
    if (d.expander)
      dist::kExpand.set(op, d.expander);
    AxisList partial = passed(op, d);
    for (OpOperand &operand : op->getOpOperands())
      if (isa<RankedTensorType>(operand.get().getType())) {
        Placement use = d.use(operand.getOperandNumber());
        if (!homeOf(operand.get(), op).partial.empty())
          use.partial = partial;
        operand.set(current(operand.get(), op, use));
      }
    for (auto [r, result] : llvm::enumerate(op->getResults()))
      finish(result, rawOf(d, r, partial));
  }
  for (Operation *op : llvm::reverse(dead))
    op->erase();
  func.setType(
      FunctionType::get(func.getContext(), body.getArgumentTypes(), body.getTerminator()->getOperandTypes()));
  return success();
}

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
