// Layouts for everything: one pass over the program that decides placements, one that writes them into types.
#include "dialects/dist/Dist.h"
#include "dialects/dist/Reshard.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/Assign/Pattern.h"
#include "passes/Propagate/Lazy.h"
#include "passes/Propagate/Passes.h"
#include "passes/Propagate/Zero.h"
#include "llvm/ADT/MapVector.h"
#include <numeric>
#include <set>

namespace tessera {
#define GEN_PASS_DEF_PROPAGATE
#include "passes/Propagate/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;
using dist::AxisList;
using dist::AxisRef;
using dist::Layout;

namespace {

class Propagation {
public:
  Propagation(ModuleOp module, const dist::Mesh &mesh, int64_t micro, const Atoms &atoms, Zero zero)
      : module(module), mesh(mesh), micro(micro), atoms(atoms), zero(std::move(zero)) {
    for (auto variable : module.getOps<nn::VariableOp>())
      roles[variable.getSymName()] = variable.getRole();
  }
  LogicalResult decide(func::FuncOp func);
  void fixPadding();
  LogicalResult emit(func::FuncOp func);
  void emitVariables();
  int64_t numReshards = 0;

private:
  /// Places what holds blocks of the streamed factor; `factors` maps the operator's factors to those of the operator with the pattern.
  void hold(nn::FactorRule rule, nn::FactorRule forward, llvm::function_ref<int(int)> map, Decision &d) const;
  LogicalResult decideInputs(func::FuncOp func);
  /// The placement that a `dist.split` attribute describes: per dimension a list of axis names.
  FailureOr<Placement> laidDown(Value value, ArrayAttr splits, Location loc) const;
  LogicalResult decideOp(Operation *op);
  LogicalResult decideAcc(nn::AccOp acc);
  /// The value whose cotangent `acc` is; null for a parameter's.
  FailureOr<Value> primalOf(nn::AccOp acc) const;
  /// Whether the cotangent is left where its terms are, partial sums, to be reduced together with another
  /// one.
  bool isLazy(nn::AccOp acc, const Placement &at);
  /// The axes of a partial operand that the results keep.
  AxisList passed(Operation *op, const Decision &d);
  LogicalResult choose(Operation *op, Decision &d);
  bool follow(Operation *op, Decision &d);
  /// Where a partial sum is best reduced to: the home of what it is added to next when that costs no more
  /// than reducing it in place.
  Placement reducedHome(Value result, const Placement &raw);
  void demand(Value value, const Placement &placement);
  const Placement &storageOf(StringRef variable, const Placement &use);
  LogicalResult settle(Operation *op, Decision d);
  bool isFree(Value value) const { return freeValues.contains(value); }
  Placement homeOf(Value value, Operation *user) const;
  Placement whole(Value value) const { return {SmallVector<AxisList>(atoms.flat(value).size()), {}, {}}; }
  double reshardSeconds(Value value, const Placement &from, const Placement &to);
  Layout layout(Value value, const Placement &placement, bool final) const;
  /// Whether a rank holds more of the value as used than at home.
  bool grows(Value value, const Placement &home, const Placement &use) const {
    return layout(value, home, true).localElements() < layout(value, use, true).localElements();
  }
  RankedTensorType typed(Value value, const Placement &placement) const;
  void noteAxes(Value value, const Placement &placement);

  ModuleOp module;
  const dist::Mesh &mesh;
  int64_t micro;
  const Atoms &atoms;
  Zero zero;
  dist::ReshardPlanner planner;
  DenseMap<Value, Placement> homes, inputHomes; // inputHomes: before the slice into microbatches
  DenseMap<Value, int> distance;
  DenseSet<Value> freeValues;
  DenseMap<Operation *, Decision> decisions;
  llvm::StringMap<Placement> storage;            // variables
  llvm::StringMap<StringRef> roles;              // of variables
  llvm::StringMap<Operation *> forward;          // nn.id -> operator, of the function being decided
  std::map<std::pair<int, int>, int64_t> blocks; // representative atom -> lcm of the products that split it
  std::map<std::pair<int, int>, int64_t> padded;
  struct Copy {
    Placement placement;
    bool backward; // gathered again for the backward
    Value value;
  };
  DenseMap<Value, std::vector<Copy>> copies;
};

Layout Propagation::layout(Value value, const Placement &placement, bool final) const {
  Layout result;
  size_t k = 0;
  for (auto &dim : atoms.of(value)) {
    SmallVector<dist::Atom, 1> list;
    for (AtomId id : dim) {
      AtomId one = atoms.representative(id);
      int64_t size = atoms.size(id), unit = mesh.numRanks() * micro;
      auto it = padded.find({one.cls, one.index});
      int64_t full = final ? (it == padded.end() ? size : it->second) : (size + unit - 1) / unit * unit;
      list.push_back(dist::Atom(size, full, placement.atoms[k++]));
    }
    result.dims.push_back(list);
  }
  result.partial = placement.partial;
  result.flat = placement.flat;
  return result.canonical();
}

RankedTensorType Propagation::typed(Value value, const Placement &placement) const {
  auto type = cast<RankedTensorType>(value.getType());
  return dist::withLayout(RankedTensorType::get(type.getShape(), type.getElementType()),
                          layout(value, placement, true));
}

double Propagation::reshardSeconds(Value value, const Placement &from, const Placement &to) {
  if (from == to)
    return 0;
  auto type = cast<RankedTensorType>(value.getType());
  double bytes = dist::elementBytes(type.getElementType());
  auto plan = planner.plan(bytes, layout(value, from, false), layout(value, to, false));
  return succeeded(plan) ? plan->cost.seconds : 1e9;
}

void Propagation::noteAxes(Value value, const Placement &placement) {
  for (auto [id, axes] : llvm::zip(atoms.flat(value), placement.atoms)) {
    AtomId one = atoms.representative(id);
    int64_t &n = blocks[{one.cls, one.index}];
    n = std::lcm(std::max<int64_t>(n, 1), dist::product(axes));
  }
}

Placement Propagation::homeOf(Value value, Operation *user) const {
  // The count of labels precedes the loop over microbatches and reads the whole input.
  if (user->hasAttr("nn.prologue"))
    if (auto it = inputHomes.find(value); it != inputHomes.end())
      return it->second;
  auto it = homes.find(value);
  return it == homes.end() ? whole(value) : it->second;
}

FailureOr<Placement> Propagation::laidDown(Value value, ArrayAttr splits, Location loc) const {
  Placement placement = whole(value);
  size_t k = 0;
  for (auto [d, dim] : llvm::enumerate(atoms.of(value))) {
    if (d < splits.size() && !dim.empty())
      for (auto name : cast<ArrayAttr>(splits[d]).getAsRange<StringAttr>()) {
        // A dimension that reshapes cut is split at its major atom.
        if (name.getValue() == dist::kMicroAxis) {
          if (micro > 1)
            placement.atoms[k].push_back({name.str(), 1, micro});
          continue;
        }
        std::string why;
        auto axes = mesh.resolve({AxisRef{name.str(), 1, 0}}, why);
        if (!axes)
          return emitError(loc) << why;
        placement.atoms[k].append(axes->begin(), axes->end());
      }
    k += dim.size();
  }
  return placement;
}

LogicalResult Propagation::decideInputs(func::FuncOp func) {
  for (BlockArgument arg : func.getArguments()) {
    Placement home = whole(arg);
    if (auto splits = func.getArgAttrOfType<ArrayAttr>(arg.getArgNumber(), "dist.split")) {
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

bool Propagation::follow(Operation *op, Decision &d) {
  auto gradOf = op->getAttrOfType<nn::GradOfAttr>("nn.grad_of");
  if (!gradOf || gradOf.getMap().empty())
    return false;
  auto it = forward.find(gradOf.getId());
  if (it == forward.end() || !decisions.contains(it->second))
    return false;
  const Decision &f = decisions[it->second];
  for (auto [i, factor] : llvm::enumerate(d.atoms.factors)) {
    if (factor.factor < 0 || factor.factor >= int(gradOf.getMap().size()) ||
        factor.kind == nn::FactorKind::Unsplit)
      continue;
    int64_t target = gradOf.getMap()[factor.factor];
    for (auto [j, other] : llvm::enumerate(f.atoms.factors))
      if (target >= 0 && other.factor == target && other.index == factor.index)
        d.axes.extend(i, f.axes.axes[j]);
  }
  d.keepsGathered = f.keepsGathered;
  if (f.stream) {
    d.stream = f.stream;
    d.expander = f.expander;
    hold(cast<nn::FactorOpInterface>(op).getFactorRule(), cast<nn::FactorOpInterface>(it->second).getFactorRule(),
         [&](int factor) { return factor >= 0 && factor < int(gradOf.getMap().size()) ? int(gradOf.getMap()[factor]) : -1; }, d);
  }
  return true;
}

void Propagation::hold(nn::FactorRule rule, nn::FactorRule forward, llvm::function_ref<int(int)> map, Decision &d) const {
  int streamed = -1;
  for (int f = 0, e = rule.factors.size(); f < e; ++f)
    if (map(f) == d.stream->factor)
      streamed = f;
  // What runs along the same factors as a holder of the forward operator plays its part.
  auto holder = [&](const nn::DimFactors &dims) -> const AxisList * {
    std::set<int> mapped;
    for (int f : dims)
      mapped.insert(map(f));
    for (auto &[operand, axes] : d.stream->holders)
      if (mapped == std::set<int>(forward.operands[operand].begin(), forward.operands[operand].end()))
        return &axes;
    return nullptr;
  };
  auto placed = [&](const AxisList &axes) {
    Assignment own(d.atoms.factors.size());
    own.spread(d.atoms, streamed, axes, atoms);
    for (auto [f, factor] : llvm::enumerate(d.atoms.factors))
      if (factor.factor != streamed)
        own.extend(f, d.axes.axes[f]);
    return own;
  };
  if (streamed < 0)
    return;
  for (auto [i, dims] : llvm::enumerate(rule.operands))
    if (const AxisList *axes = holder(dims))
      d.streamedOperands[i] = placed(*axes).use(d.atoms, i);
  for (auto [r, dims] : llvm::enumerate(rule.results))
    if (const AxisList *axes = holder(dims)) {
      Placement raw = placed(*axes).raw(d.atoms, r);
      llvm::erase_if(raw.partial, [&](const AxisRef &axis) { return dist::overlapsAny(axis, *axes); });
      d.streamedResults[r] = raw;
    }
}

LogicalResult Propagation::choose(Operation *op, Decision &d) {
  SmallVector<unsigned> operands;
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    if (isa<RankedTensorType>(op->getOperand(i).getType()) && !isFree(op->getOperand(i)))
      operands.push_back(i);
  auto complete = [&](Assignment &axes, int firstOperand) {
    if (firstOperand >= 0)
      axes.project(d.atoms, firstOperand, homeOf(op->getOperand(firstOperand), op));
    for (unsigned i : operands)
      if (int(i) != firstOperand)
        axes.project(d.atoms, i, homeOf(op->getOperand(i), op));
    if (firstOperand >= 0 && d.atoms.runsFlat(firstOperand)) {
      axes.flat = homeOf(op->getOperand(firstOperand), op).flat;
      axes.flatFactors = d.atoms.operands[firstOperand];
    }
  };
  if (auto attr = op->getAttrOfType<dist::PatternAttr>("dist.pattern")) {
    const tessera::Pattern *pattern = findPattern(attr.getName());
    if (!pattern)
      return op->emitOpError("has an unknown pattern \"") << attr.getName() << "\"";
    SmallVector<AxisList> axes;
    for (const AxisRef &axis : attr.getAxes()) {
      std::string why;
      auto resolved = mesh.resolve({axis}, why);
      if (!resolved)
        return op->emitOpError(why);
      axes.push_back(*resolved);
    }
    auto factorOp = cast<nn::FactorOpInterface>(op);
    if (Applies applies = pattern->applies(factorOp, axes); !applies)
      return op->emitOpError(applies.why);
    struct Homes : Surroundings {
      Homes(const Propagation &self, Operation *op, const OpAtoms &atoms)
          : self(self), op(op), atoms(atoms) {}
      AxisList home(unsigned operand, int factor) const override {
        AxisList list;
        if (!self.isFree(op->getOperand(operand)))
          for (auto [f, axes] :
               llvm::zip(atoms.operands[operand], self.homeOf(op->getOperand(operand), op).atoms))
            if (atoms.factors[f].factor == factor)
              list.append(axes.begin(), axes.end());
        return list;
      }
      const Propagation &self;
      Operation *op;
      const OpAtoms &atoms;
    };
    Choice choice = pattern->choose(factorOp, axes, Homes(*this, op, d.atoms));
    nn::FactorRule rule = factorOp.getFactorRule();
    for (const FactorSplit &split : choice.compute)
      d.axes.spread(d.atoms, split.factor, split.axes, atoms);
    complete(d.axes, -1);
    auto placed = [&](const FactorSplits &splits) {
      Assignment axes(d.atoms.factors.size());
      for (const FactorSplit &split : splits)
        axes.spread(d.atoms, split.factor, split.axes, atoms);
      return axes;
    };
    for (auto &[operand, splits] : choice.storage)
      d.storage[operand] = placed(splits).use(d.atoms, operand);
    for (auto &[result, splits] : choice.homes) {
      Assignment axes = placed(splits);
      for (auto [f, factor] : llvm::enumerate(d.atoms.factors))
        if (llvm::none_of(splits, [&](const FactorSplit &split) { return split.factor == factor.factor; }))
          axes.extend(f, d.axes.axes[f]);
      d.homes[result] = axes.raw(d.atoms, result).withoutPartial();
    }
    d.keepsGathered = choice.keepsGathered;
    if (choice.stream) {
      d.stream = choice.stream;
      d.expander = attr;
      hold(rule, rule, [](int f) { return f; }, d);
    }
    return success();
  }
  Assignment best(d.atoms.factors.size());
  std::tuple<double, int, int64_t> bestKey;
  for (unsigned candidate : operands) {
    Assignment axes(d.atoms.factors.size());
    complete(axes, candidate);
    double seconds = 0;
    for (unsigned i : operands)
      seconds += reshardSeconds(op->getOperand(i), homeOf(op->getOperand(i), op), axes.use(d.atoms, i));
    std::tuple<double, int, int64_t> key{seconds, distance.lookup(op->getOperand(candidate)), -axes.ways()};
    if (candidate == operands.front() || key < bestKey) {
      best = axes;
      bestKey = key;
    }
  }
  d.axes = best;
  return success();
}

Placement Propagation::reducedHome(Value result, const Placement &raw) {
  Placement reduced = raw.withoutPartial();
  if (raw.partial.empty())
    return reduced;
  Value value = result;
  while (value.hasOneUse()) {
    Operation *user = *value.getUsers().begin();
    auto factorOp = dyn_cast<nn::FactorOpInterface>(user);
    if (!factorOp || user->getNumResults() != 1 || user->hasAttr("dist.pattern") ||
        user->hasAttr("nn.grad_of"))
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
    if (auto splits = user->getAttrOfType<ArrayAttr>("dist.split"))
      if (FailureOr<Placement> given = laidDown(user->getResult(0), splits, user->getLoc()); succeeded(given) && given->atoms.size() == raw.atoms.size())
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

static Placement rawOf(const Decision &d, unsigned result, ArrayRef<AxisRef> passed) {
  Placement raw = d.raw(result);
  raw.partial.append(passed.begin(), passed.end());
  llvm::sort(raw.partial);
  return raw;
}

AxisList Propagation::passed(Operation *op, const Decision &d) {
  return passedOn(op, d,
                  {[&](Value value, Operation *user) { return homeOf(value, user); }, nullptr, nullptr});
}

LogicalResult Propagation::settle(Operation *op, Decision d) {
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    if (!isa<RankedTensorType>(operand.getType()))
      continue;
    Placement use = d.use(i);
    noteAxes(operand, use);
    if (auto stored = d.storage.find(i); stored != d.storage.end())
      demand(operand, stored->second);
    demand(operand, use);
  }
  int near = op->hasAttr("dist.pattern") ? 0 : 1 << 20;
  for (Value operand : op->getOperands())
    near = std::min(near, distance.lookup(operand) + 1);
  AxisList partial = passed(op, d);
  for (auto [r, result] : llvm::enumerate(op->getResults())) {
    Placement raw = rawOf(d, r, partial);
    noteAxes(result, raw);
    // What a gradient leaves partial stays so until cotangents meet.
    bool met = op->hasAttr("nn.grad_of") ||
               (!result.use_empty() &&
                llvm::all_of(result.getUsers(), [](Operation *u) { return isa<nn::AccOp>(u); }));
    if (auto given = d.homes.find(r); given != d.homes.end())
      homes[result] = given->second;
    else
      homes[result] = met ? raw : reducedHome(result, raw);
    noteAxes(result, homes[result]);
    if (auto splits = op->getAttrOfType<ArrayAttr>("dist.split"); splits && r == 0) {
      FailureOr<Placement> given = laidDown(result, splits, op->getLoc());
      if (failed(given))
        return failure();
      homes[result] = *given;
      noteAxes(result, *given);
    }
    distance[result] = near;
  }
  decisions[op] = std::move(d);
  return success();
}

const Placement &Propagation::storageOf(StringRef variable, const Placement &use) {
  auto [it, isNew] = storage.try_emplace(variable, use);
  // Optimizer state is where the update is computed.
  if (isNew && roles.lookup(variable) != "optimizer")
    it->second = zero.stage >= 3 && roles.lookup(variable) == "parameter" ? zero.cut(use.withoutFlat()) : use.withoutFlat();
  return it->second;
}

void Propagation::demand(Value value, const Placement &placement) {
  if (!isFree(value) || homes.contains(value))
    return;
  Operation *op = value.getDefiningOp();
  if (auto read = dyn_cast<nn::ReadOp>(op)) {
    homes[value] = storageOf(read.getVariable(), placement);
    noteAxes(value, homes[value]);
    return;
  }
  Decision d = Decision::undecided(op, atoms);
  unsigned r = cast<OpResult>(value).getResultNumber();
  d.axes.projectResult(d.atoms, r, placement);
  (void)settle(op, std::move(d)); // a free value has no layout laid down that could fail
}

FailureOr<Value> Propagation::primalOf(nn::AccOp acc) const {
  auto of = acc->getAttrOfType<StringAttr>("nn.cotangent_of");
  if (!of || of.getValue().starts_with("@"))
    return Value();
  auto [id, index] = of.getValue().rsplit('#');
  unsigned number = 0;
  auto it = forward.find(id);
  if (it == forward.end() || index.getAsInteger(10, number) || number >= it->second->getNumResults())
    return acc.emitOpError("is the cotangent of an unknown value \"") << of.getValue() << "\"";
  return Value(it->second->getResult(number));
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

LogicalResult Propagation::decideAcc(nn::AccOp acc) {
  Value result = acc.getResult();
  Placement home = whole(result);
  FailureOr<Value> primal = primalOf(acc);
  if (failed(primal))
    return failure();
  Placement raw = homes.lookup(acc.getTerms()[0]);
  bool agree = llvm::all_of(acc.getTerms(), [&](Value term) { return homes.lookup(term) == raw; });
  if (!*primal) {
    if (auto of = acc->getAttrOfType<StringAttr>("nn.cotangent_of")) {
      home = storageOf(of.getValue().drop_front(), home);
      if (zero.stage >= 1)
        home = zero.cut(home);
    }
  } else if (isFree(*primal)) {
    // The reduction is the parameter's business: stay as computed where all terms agree.
    home = agree ? raw : raw.withoutPartial();
  } else {
    home = homes.lookup(*primal);
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
    if (auto id = op->getAttrOfType<StringAttr>("nn.id"))
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
  if (auto id = op->getAttrOfType<StringAttr>("nn.id"))
    forward[id.getValue()] = op;
  Decision d = Decision::undecided(op, atoms);
  if (!follow(op, d) && failed(choose(op, d)))
    return failure();
  return settle(op, std::move(d));
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

void Propagation::fixPadding() {
  for (auto [id, n] : blocks) {
    int64_t size = atoms.size({id.first, id.second});
    padded[id] = (size + n - 1) / n * n;
  }
}

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
    bool gathers = zero.regather && grows(original, home, use) && !keepsGathered(user), backward = gathers && runsBackward(user);
    for (const Copy &copy : copies[original])
      if (copy.placement == use && copy.backward == backward)
        return copy.value;
    auto copy = dist::ReshardOp::create(b, user->getLoc(), typed(original, use), value);
    if (gathers)
      copy->setAttr(dist::kGatherAttr, b.getStringAttr(backward ? "backward" : "forward"));
    ++numReshards;
    copies[original].push_back({use, backward, copy});
    return copy;
  };
  auto finish = [&](Value result, const Placement &raw) {
    Placement home = homes.lookup(result);
    result.setType(typed(result, raw));
    if (layout(result, raw, true) == layout(result, home, true))
      return;
    b.setInsertionPointAfterValue(result);
    Value moved = dist::ReshardOp::create(b, result.getLoc(), typed(result, home), result);
    ++numReshards;
    now[result] = moved;
    // Whoever wants it as it was computed need not move it back.
    if (raw.partial.empty())
      copies[result].push_back({raw, false, result}), copies[result].push_back({raw, true, result});
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
      // Add the terms of one layout, move each sum once, add the sums.
      Value result = acc.getResult();
      Placement home = homes.lookup(result);
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
          sum = add.getResult();
        }
        if (layout(result, at, true) != layout(result, home, true)) {
          sum = dist::ReshardOp::create(b, op->getLoc(), typed(result, home), sum);
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
      op->setAttr(dist::kExpandAttr, d.expander);
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

struct PropagatePass : tessera::impl::PropagateBase<PropagatePass> {
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<dist::DistDialect>();
  }
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto meshes = module.getOps<dist::MeshOp>();
    if (meshes.empty()) {
      module.emitError("has no dist.mesh; run tessera-assign first");
      return signalPassFailure();
    }
    dist::Mesh mesh = (*meshes.begin()).getMesh().getMesh();
    int64_t micro = 1;
    if (auto attr = module->getAttrOfType<IntegerAttr>("dist.micro"))
      micro = attr.getInt();
    Zero zero = Zero::of(module);
    if (zero.stage >= 3 && zero.regather)
      for (auto func : module.getOps<func::FuncOp>())
        recomputeFromParameters(func);
    FailureOr<Atoms> atoms = Atoms::analyse(module);
    if (failed(atoms))
      return signalPassFailure();
    Propagation propagation(module, mesh, micro, *atoms, zero);
    // The program with the most to say about a variable's layout first: the one that trains it.
    SmallVector<func::FuncOp> funcs(module.getOps<func::FuncOp>());
    llvm::stable_sort(funcs, [](func::FuncOp a, func::FuncOp b) {
      auto assigns = [](func::FuncOp f) { return !f.getOps<nn::AssignOp>().empty(); };
      return assigns(a) && !assigns(b);
    });
    for (func::FuncOp func : funcs)
      if (failed(propagation.decide(func)))
        return signalPassFailure();
    propagation.fixPadding();
    for (func::FuncOp func : funcs)
      if (failed(propagation.emit(func)))
        return signalPassFailure();
    propagation.emitVariables();
    numReshards = propagation.numReshards;
  }
};

} // namespace
