// Gathers what propagation decided.
#include "lib/Driver/Facts.h"
#include "dialects/dist/Dist.h"
#include "dialects/dist/Reshard.h"
#include "lib/Support/Location.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Assign/Pattern.h"
#include "passes/Assign/Plan.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace tessera;

namespace {

std::string axesText(ArrayRef<dist::AxisRef> axes) {
  std::string text;
  for (const dist::AxisRef &axis : axes)
    text += (text.empty() ? "" : ",") + axis.name;
  return text;
}

// `f32[4/data, 32, 12>16/tensor*64] partial tensor flat/seq`: atoms of a dimension joined by `*`, `>` before the padded size, `/` before the axes.
std::string typeText(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  std::string text;
  llvm::raw_string_ostream os(text);
  if (!tensor) {
    os << type;
    return text;
  }
  dist::Layout layout = dist::getLayout(tensor);
  os << tensor.getElementType() << "[";
  llvm::interleaveComma(layout.dims, os, [&](auto &dim) {
    if (dim.empty())
      os << 1;
    llvm::interleave(dim, os, [&](const dist::Atom &atom) {
      os << atom.size;
      if (atom.padded != atom.size)
        os << ">" << atom.padded;
      if (!atom.axes.empty())
        os << "/" << axesText(atom.axes);
    }, "*");
  });
  os << "]";
  if (!layout.partial.empty())
    os << " partial " << axesText(layout.partial);
  if (!layout.flat.empty())
    os << " flat/" << axesText(layout.flat);
  return text;
}

// Training programs mark what they took over from the model by ids.
bool isForward(Operation *op) {
  auto func = op->getParentOfType<func::FuncOp>();
  return func.getOps<nn::AssignOp>().empty() || op->hasAttr("nn.id");
}

// A move is forward when what it moves is computed there, or when it brings a parameter or an input there.
bool isForwardMove(dist::ReshardOp op) {
  Operation *producer = op.getSource().getDefiningOp();
  if (auto before = dyn_cast_or_null<dist::ReshardOp>(producer))
    return isForwardMove(before);
  if (producer && !isa<nn::ReadOp>(producer))
    return isForward(producer);
  return llvm::any_of(op->getUsers(), [](Operation *user) { return isForward(user); });
}

bool isMicro(const dist::AxisRef &axis) { return axis.name == dist::kMicroAxis; }

class Collector {
public:
  explicit Collector(ModuleOp module) : module(module) {}
  Facts collect();

private:
  void collect(func::FuncOp func);
  OperatorFact describe(func::FuncOp func, Operation &op);
  MoveFact moveOf(dist::ReshardOp op);
  void notePadding(Type type, StringRef example);
  ParameterFact parameter(nn::VariableOp variable);

  ModuleOp module;
  Facts facts;
  dist::ReshardPlanner planner;
  llvm::StringMap<llvm::SetVector<Operation *>> users; // of each variable
  llvm::MapVector<std::pair<int64_t, int64_t>, PaddingFact> paddings;
};

MoveFact Collector::moveOf(dist::ReshardOp op) {
  auto from = cast<RankedTensorType>(op.getSource().getType()), to = cast<RankedTensorType>(op.getResult().getType());
  MoveFact move{typeText(from), typeText(to), {}, 0, 0};
  FailureOr<dist::ReshardPlan> plan = planner.plan(from, to);
  if (failed(plan))
    return move;
  // What is cut into microbatches moves once for each of them, and so do parameters that are not kept.
  bool trains = !op->getParentOfType<func::FuncOp>().getOps<nn::AssignOp>().empty();
  bool repeats = (trains && op->hasAttr(dist::kGatherAttr)) ||
                 (llvm::any_of(dist::getLayout(from).splittingAxes(), isMicro) &&
                  llvm::any_of(dist::getLayout(to).splittingAxes(), isMicro));
  int64_t times = repeats ? facts.microbatches : 1;
  move.bytes = plan->cost.bytes * times;
  move.seconds = plan->cost.seconds * times;
  for (const dist::ReshardStep &step : plan->steps)
    if (step.kind)
      move.collectives.push_back(dist::stringifyCollectiveKind(*step.kind).str() + " " + axesText(step.axes));
  return move;
}

void Collector::notePadding(Type type, StringRef example) {
  if (!isa<RankedTensorType>(type))
    return;
  dist::Layout layout = dist::getLayout(type);
  for (const dist::Atom *atom : std::as_const(layout).atoms())
    if (atom->padded != atom->size) {
      PaddingFact &fact = paddings[{atom->size, atom->padded}];
      fact.size = atom->size;
      fact.padded = atom->padded;
      if (fact.values++ == 0)
        fact.example = example;
    }
}

OperatorFact Collector::describe(func::FuncOp func, Operation &op) {
  OperatorFact fact;
  fact.program = func.getName();
  fact.node = nodeName(op.getLoc());
  fact.module = modulePath(op.getLoc());
  fact.kind = op.getName().stripDialect();
  fact.names = namesOf(&op);
  fact.isForward = isForward(&op);
  if (auto pattern = op.getAttrOfType<dist::PatternAttr>("dist.pattern"))
    fact.pattern = pattern.getName().str() + " [" + axesText(pattern.getAxes()) + "]";
  if (auto origin = op.getAttrOfType<StringAttr>("dist.origin"))
    fact.origin = origin.getValue();
  for (Value operand : op.getOperands())
    fact.operands.push_back(typeText(operand.getType()));
  std::string label = fact.module.empty() ? fact.node : fact.module;
  dist::AxisList used;
  for (Value value : op.getOperands())
    if (isa<RankedTensorType>(value.getType()))
      used.append(dist::getLayout(value.getType()).usedAxes());
  for (Value result : op.getResults()) {
    fact.results.push_back(typeText(result.getType()));
    if (auto type = dyn_cast<RankedTensorType>(result.getType())) {
      fact.heldBytes += int64_t(dist::getLayout(type).localElements() * dist::elementBytes(type.getElementType()));
      used.append(dist::getLayout(type).usedAxes());
    }
    notePadding(result.getType(), label);
  }
  auto factorOp = dyn_cast<nn::FactorOpInterface>(op);
  // Products are what the pattern of products applies to.
  if (factorOp && fact.isForward && findPattern("column")->applies(factorOp, {}))
    for (auto &[axis, size] : facts.mesh)
      if (size > 1 && llvm::none_of(used, [&](const dist::AxisRef &a) { return a.name == axis; }))
        fact.whole.push_back(axis);
  return fact;
}

void Collector::collect(func::FuncOp func) {
  for (Operation &op : func.getBody().front()) {
    for (Value operand : op.getOperands())
      if (auto read = dyn_cast_or_null<nn::ReadOp>(readOf(operand)); read && isForward(&op))
        users[read.getVariable()].insert(&op);
    if (auto reshard = dyn_cast<dist::ReshardOp>(op)) {
      OperatorFact fact = describe(func, op);
      fact.isForward = isForwardMove(reshard);
      fact.move.push_back(moveOf(reshard));
      facts.operators.push_back(std::move(fact));
    } else if (isa<nn::FactorOpInterface>(op) && !isa<nn::AccOp>(op)) {
      facts.operators.push_back(describe(func, op));
    }
  }
}

ParameterFact Collector::parameter(nn::VariableOp variable) {
  ParameterFact fact{variable.getSymName().str(), variable.getSource().value_or("").str(), typeText(variable.getType()),
                     variable.getTransposed(), variable.getTrained(), false, ""};
  notePadding(variable.getType(), variable.getSymName());
  if (facts.mesh.empty() || !dist::getLayout(variable.getType()).splittingAxes().empty())
    return fact;
  fact.isReplicated = true;
  llvm::SetVector<StringRef> kinds, patterns;
  for (Operation *user : users[variable.getSymName()]) {
    kinds.insert(user->getName().stripDialect());
    if (auto pattern = user->getAttrOfType<dist::PatternAttr>("dist.pattern"))
      patterns.insert(pattern.getName());
  }
  if (kinds.empty())
    fact.why = "no operator computes with it";
  else if (patterns.empty())
    fact.why = "no pattern on " + llvm::join(kinds, ", ");
  else
    fact.why = "pattern " + llvm::join(patterns, ", ") + " leaves it whole";
  return fact;
}

Facts Collector::collect() {
  for (auto op : module.getOps<dist::MeshOp>()) {
    const dist::Mesh &mesh = op.getMesh().getMesh();
    for (const dist::AxisRef &axis : mesh.declared())
      facts.mesh.push_back({axis.name, axis.size});
  }
  if (auto attr = module->getAttrOfType<IntegerAttr>("dist.micro"))
    facts.microbatches = attr.getInt();
  for (auto func : module.getOps<func::FuncOp>())
    collect(func);
  for (auto variable : module.getOps<nn::VariableOp>())
    if (variable.getRole() == "parameter")
      facts.parameters.push_back(parameter(variable));
  for (auto &[atom, fact] : paddings)
    facts.paddings.push_back(fact);
  return std::move(facts);
}

} // namespace

Facts tessera::collectFacts(ModuleOp module) { return Collector(module).collect(); }
