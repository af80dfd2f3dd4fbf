// One walk over a program decides where every value is at home.
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pack.h"
#include "dialects/nn/Attributes.h"
#include "passes/Propagate/Propagation.h"

using namespace mlir;
using namespace tessera;
using dist::AxisList;
using dist::AxisRef;
using dist::Layout;

FailureOr<Placement> Propagation::laidDown(Value value, ArrayAttr splits, Location loc) const {
  Placement placement = whole(value);
  AxisList all;
  size_t k = 0;
  for (auto [d, dim] : llvm::enumerate(atoms.of(value))) {
    size_t first = dim.size() > 1 && atoms.isMicro(dim[0]) ? 1 : 0;
    if (d < splits.size() && !dim.empty())
      for (auto name : cast<ArrayAttr>(splits[d]).getAsRange<StringAttr>()) {
        // A dimension that reshapes cut is split at its major atom, behind that of microbatches.
        if (name.getValue() == dist::kMicroAxis) {
          if (micro > 1)
            placement.atoms[k].push_back({name.str(), 1, micro});
          continue;
        }
        std::string why;
        auto axes = mesh.resolve({AxisRef{name.str(), 1, 0}}, why);
        if (!axes)
          return emitError(loc) << why;
        for (const AxisRef &axis : *axes) {
          if (dist::overlapsAny(axis, all))
            return emitError(loc) << dist::kSplit.name << " names axis \"" << name.getValue()
                                  << "\" twice; an axis splits one dimension of a value";
          all.push_back(axis);
        }
        placement.atoms[k + first].append(axes->begin(), axes->end());
      }
    k += dim.size();
  }
  return placement;
}

LogicalResult Propagation::decideInputs(func::FuncOp func) {
  for (BlockArgument arg : func.getArguments()) {
    Placement home = whole(arg);
    if (auto splits = dist::kSplit.ofArgument(func, arg.getArgNumber())) {
      FailureOr<Placement> given = laidDown(arg, splits, func.getLoc());
      if (failed(given))
        return failure();
      home = *given;
    }
    Placement before = home;
    for (AxisList &axes : before.atoms)
      llvm::erase_if(axes, [](const AxisRef &axis) { return axis.name == dist::kMicroAxis; });
    inputHomes[arg] = before;
    homes[arg] = home;
    distance[arg] = 0;
  }
  return success();
}

// Whether the one operator that reads `value` forward is linear in it and makes less of it, and gradients
// that read it are linear in it too: then what is made of a partial sum is reduced, not the sum.
static bool shrinksNext(Value value) {
  Operation *next = nullptr;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    auto factorOp = dyn_cast<nn::FactorOpInterface>(user);
    if (!factorOp || !factorOp.isLinearIn(use.getOperandNumber()) || user->getNumResults() != 1)
      return false;
    if (nn::kGradOf.isOn(user))
      continue;
    if (next || dist::kPattern.isOn(user))
      return false;
    next = user;
  }
  auto elements = [](Value v) { return cast<RankedTensorType>(v.getType()).getNumElements(); };
  return next && elements(next->getResult(0)) < elements(value);
}

Placement Propagation::reducedHome(Value result, const Placement &raw) {
  Placement reduced = raw.withoutPartial();
  if (raw.partial.empty())
    return reduced;
  if (shrinksNext(result))
    return raw;
  Value value = result;
  while (value.hasOneUse()) {
    Operation *user = *value.getUsers().begin();
    auto factorOp = dyn_cast<nn::FactorOpInterface>(user);
    if (!factorOp || user->getNumResults() != 1 || dist::kPattern.isOn(user) || nn::kGradOf.isOn(user))
      break;
    nn::FactorRule rule = factorOp.getFactorRule();
    auto elementwise = [&] {
      return llvm::all_of(rule.factors,
                          [](const nn::Factor &f) { return f.kind == nn::FactorKind::PassThrough; }) &&
             user->getResult(0).getType() == value.getType();
    };
    if (rule.isReshape ? atoms.isBarrier(user) : !elementwise())
      break;
    // A home laid down by hand.
    if (auto splits = dist::kSplit.of(user))
      if (FailureOr<Placement> given = laidDown(user->getResult(0), splits, user->getLoc());
          succeeded(given) && given->atoms.size() == raw.atoms.size())
        return reshardSeconds(result, raw, *given) <= reshardSeconds(result, raw, reduced) ? *given : reduced;
    for (Value other : user->getOperands())
      if (other != value && homes.contains(other) && !isFree(other) && other.getType() == value.getType()) {
        // Along reshapes atoms are the same, in the same order.
        const Placement &home = homes[other];
        if (!home.partial.empty() || home.atoms.size() != raw.atoms.size())
          return reduced;
        return reshardSeconds(result, raw, home) <= reshardSeconds(result, raw, reduced) ? home : reduced;
      }
    value = user->getResult(0);
  }
  return reduced;
}

LogicalResult Propagation::record(Operation *op, Decision d) {
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    if (!isa<RankedTensorType>(operand.getType()))
      continue;
    Placement use = d.use(i);
    noteAxes(operand, use);
    if (auto stored = d.storage.find(i); stored != d.storage.end())
      demand(operand, stored->second);
    demand(operand, use);
  }
  int near = dist::kPattern.isOn(op) ? 0 : 1 << 20;
  for (Value operand : op->getOperands())
    near = std::min(near, distance.lookup(operand) + 1);
  AxisList partial = inheritedPartial(op, d);
  for (auto [r, result] : llvm::enumerate(op->getResults())) {
    Placement raw = rawOf(d, r, partial);
    noteAxes(result, raw);
    // What a gradient leaves partial stays so until cotangents meet.
    bool met = nn::kGradOf.isOn(op) ||
               (!result.use_empty() &&
                llvm::all_of(result.getUsers(), [](Operation *u) { return isa<nn::AccOp>(u); }));
    if (auto given = d.homes.find(r); given != d.homes.end())
      homes[result] = given->second;
    else
      homes[result] = met ? raw : reducedHome(result, raw);
    noteAxes(result, homes[result]);
    if (auto splits = dist::kSplit.of(op); splits && r == 0) {
      FailureOr<Placement> given = laidDown(result, splits, op->getLoc());
      if (failed(given))
        return failure();
      // A layout says where ranks keep the value; which part of the batch an iteration works on is not its
      // business.
      for (auto [home, computed] : llvm::zip(given->atoms, raw.atoms))
        llvm::copy_if(computed, std::back_inserter(home),
                      [](const AxisRef &axis) { return axis.name == dist::kMicroAxis; });
      homes[result] = *given;
      noteAxes(result, *given);
    }
    distance[result] = near;
    remarkResult(op, r, raw);
  }
  decisions[op] = std::move(d);
  return success();
}

const Placement &Propagation::storageOf(StringRef variable, const Placement &use) {
  auto [it, isNew] = storage.try_emplace(variable, use);
  // Optimizer state is where the update is computed.
  if (isNew && variables.lookup(variable).getRole() != "optimizer")
    it->second = zero.stores(variables.lookup(variable)) ? zero.cut(use.withoutFlat()) : use.withoutFlat();
  // A variable outlives the microbatches, so that each takes its part.
  if (isNew)
    for (AxisList &axes : it->second.atoms)
      llvm::erase_if(axes, [](const AxisRef &axis) { return axis.name == dist::kMicroAxis; });
  return it->second;
}

// Whether the operator makes values of fewer bytes of its one operand's, element by element.
static bool narrows(Operation *op) {
  if (op->getNumOperands() != 1 || op->getNumResults() != 1)
    return false;
  auto from = cast<RankedTensorType>(op->getOperand(0).getType()),
       to = cast<RankedTensorType>(op->getResult(0).getType());
  return from.getShape() == to.getShape() && dist::bytesOf(to) < dist::bytesOf(from);
}

void Propagation::demand(Value value, const Placement &placement) {
  if (!isFree(value) || homes.contains(value))
    return;
  Operation *op = value.getDefiningOp();
  if (auto read = dyn_cast<nn::ReadOp>(op)) {
    homes[value] = storageOf(read.getVariable(), placement);
    noteAxes(value, homes[value]);
    remarkVariable(read);
    return;
  }
  Decision d = Decision::undecided(op, atoms);
  unsigned r = cast<OpResult>(value).getResultNumber();
  d.axes.projectResult(d.atoms, r, placement);
  // What a rank has of a variable is converted before it is gathered, which sends and holds fewer bytes.
  if (narrows(op) && d.atoms.runsFlat(0)) {
    demand(op->getOperand(0), d.use(0));
    if (Placement stored = homes.lookup(op->getOperand(0)); !stored.flat.empty()) {
      d.axes.flat = stored.flat;
      d.axes.flatFactors = d.atoms.operands[0];
      if (!zero.gathersOnce()) // not to be kept for all microbatches, as what is gathered of it
        dist::kGather.set(op, dist::GatherForAttr::get(op->getContext(), runsBackward(op)
                                                                             ? dist::GatherFor::Backward
                                                                             : dist::GatherFor::Forward));
    }
  }
  (void)record(op, std::move(d)); // a free value has no layout laid down that could fail
}

FailureOr<Value> Propagation::primalOf(nn::AccOp acc) const {
  nn::ForwardValueAttr of = nn::cotangentOfValue(acc);
  if (!of)
    return Value();
  auto it = forward.find(of.getId());
  if (it == forward.end() || of.getResult() >= it->second->getNumResults())
    return acc.emitOpError("is the cotangent of an unknown value, ") << of;
  return Value(it->second->getResult(of.getResult()));
}

bool Propagation::isLazy(nn::AccOp acc, const Placement &at) {
  auto home = [&](Value value, Operation *user) { return homeOf(value, user); };
  auto decision = [&](Operation *op, unsigned operand,
                      const Placement &placement) -> std::optional<Decision> {
    if (auto it = decisions.find(op); it != decisions.end())
      return it->second;
    Decision d = Decision::undecided(op, atoms);
    if (follow(op, d))
      return d;
    if (op->getNumOperands() != 1 || placement.atoms.empty())
      return std::nullopt;
    d.axes.project(d.atoms, operand, placement);
    return d;
  };
  auto isDeferred = [&](nn::AccOp other) {
    FailureOr<Value> primal = primalOf(other);
    return succeeded(primal) && (!*primal || isFree(*primal));
  };
  return staysPartial(acc, at, {home, decision, isDeferred});
}

// Whether the gradient of what was made of a parameter is added to others of it.
static bool meetsOthers(nn::AccOp acc) {
  Value value = acc.getResult();
  while (value.hasOneUse()) {
    Operation *user = *value.user_begin();
    if (auto next = dyn_cast<nn::AccOp>(user))
      return next.getTerms().size() > 1;
    if (!nn::kGradOf.isOn(user) || user->getNumResults() != 1)
      return false;
    value = user->getResult(0);
  }
  return false;
}

LogicalResult Propagation::decideAcc(nn::AccOp acc) {
  Value result = acc.getResult();
  Placement home = whole(result);
  FailureOr<Value> primal = primalOf(acc);
  if (failed(primal))
    return failure();
  Placement raw = homes.lookup(acc.getTerms()[0]);
  bool agree = llvm::all_of(acc.getTerms(), [&](Value term) { return homes.lookup(term) == raw; });
  if (!*primal) {
    if (StringRef parameter = nn::gradientOfParameter(acc); !parameter.empty())
      home = storageOf(parameter, home);
  } else if (isFree(*primal)) {
    // The reduction is the parameter's business: stay as computed where all terms agree. But each microbatch
    // has the same primal, so that the gradient is taken once, of the sum over them; unless that is to be
    // added to what each microbatch has (a table that is looked up in and converted for a product): one sum
    // over microbatches and one reduction for both.
    home = agree ? raw : raw.withoutPartial();
    if (!meetsOthers(acc))
      llvm::erase_if(home.partial, [](const AxisRef &axis) { return axis.name == dist::kMicroAxis; });
  } else {
    home = homes.lookup(*primal).withoutPartial();
    if (agree && !raw.partial.empty() && raw.atoms == home.atoms && isLazy(acc, raw))
      home = raw;
  }
  for (Value term : acc.getTerms())
    demand(term, home);
  noteAxes(result, home);
  homes[result] = home;
  distance[result] = 1;
  return success();
}

LogicalResult Propagation::decideOp(Operation *op) {
  if (auto assign = dyn_cast<nn::AssignOp>(op)) {
    Placement home = homeOf(assign.getValue(), op).withoutPartial();
    const Placement &stored = storageOf(assign.getVariable(), home);
    noteAxes(assign.getValue(), stored);
    demand(assign.getValue(), stored);
    return success();
  }
  if (isa<nn::ReadOp>(op) || (isa<nn::FactorOpInterface>(op) &&
                              llvm::all_of(op->getOperands(), [&](Value v) { return isFree(v); }))) {
    freeValues.insert(op->result_begin(), op->result_end());
    if (auto id = nn::kId.of(op))
      forward[id.getValue()] = op;
    // Optimizer state and parameters that no product reads yet have their storage where an earlier function
    // put it.
    return success();
  }
  if (isa<func::ReturnOp>(op)) {
    for (Value value : op->getOperands())
      demand(value, whole(value));
    return success();
  }
  if (auto acc = dyn_cast<nn::AccOp>(op))
    return decideAcc(acc);
  if (!isa<nn::FactorOpInterface>(op))
    return op->emitOpError("is not an operator that propagation understands");
  if (auto id = nn::kId.of(op))
    forward[id.getValue()] = op;
  Decision d = Decision::undecided(op, atoms);
  if (!follow(op, d) && failed(choose(op, d)))
    return failure();
  return record(op, std::move(d));
}

LogicalResult Propagation::decide(func::FuncOp func) {
  forward.clear();
  if (failed(decideInputs(func)))
    return failure();
  for (BlockArgument arg : func.getArguments()) {
    noteAxes(arg, homes[arg]);
    noteAxes(arg, inputHomes[arg]);
  }
  for (Operation &op : func.getBody().front())
    if (failed(decideOp(&op)))
      return failure();
  // What nobody demanded is whole.
  for (Operation &op : func.getBody().front())
    for (Value value : op.getResults())
      if (isFree(value) && !homes.contains(value))
        demand(value, whole(value));
  return success();
}
