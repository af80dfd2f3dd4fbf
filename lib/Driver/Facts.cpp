// Gathers what propagation decided.
#include "lib/Driver/Facts.h"
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Machine.h"
#include "dialects/dist/Pipeline.h"
#include "dialects/dist/Reshard.h"
#include "dialects/nn/Attributes.h"
#include "lib/Support/Location.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Assign/NameIndex.h"
#include "passes/Assign/Pattern.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include <map>

using namespace mlir;
using namespace tessera;

namespace {

std::string axesText(ArrayRef<dist::AxisRef> axes) {
  std::string text;
  for (const dist::AxisRef &axis : axes)
    text += (text.empty() ? "" : ",") + axis.name;
  return text;
}

// `f32[4/data, 32, 12>16/tensor*64] partial tensor flat/seq`: atoms of a dimension joined by `*`, `>` before
// the padded size, `/` before the axes.
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
    llvm::interleave(
        dim, os,
        [&](const dist::Atom &atom) {
          os << atom.size;
          if (atom.padded != atom.size)
            os << ">" << atom.padded;
          if (!atom.axes.empty())
            os << "/" << axesText(atom.axes);
        },
        "*");
  });
  os << "]";
  if (!layout.partial.empty())
    os << " partial " << axesText(layout.partial);
  if (!layout.flat.empty())
    os << " flat/" << axesText(layout.flat);
  return text;
}

// Training programs mark what they took over from the model by ids.
bool isForward(Operation *op, bool trains) { return !trains || nn::kId.isOn(op); }

// A move is forward when what it moves is computed there, or when it brings a parameter or an input there.
bool isForwardMove(dist::ReshardOp op, bool trains) {
  Operation *producer = op.getSource().getDefiningOp();
  if (auto before = dyn_cast_or_null<dist::ReshardOp>(producer))
    return isForwardMove(before, trains);
  if (producer && !isa<nn::ReadOp>(producer))
    return isForward(producer, trains);
  return llvm::any_of(op->getUsers(), [&](Operation *user) { return isForward(user, trains); });
}

// Whether an operator is a product: a sum over what two of its operands share.
bool isProduct(Operation &op) {
  auto factorOp = dyn_cast<nn::FactorOpInterface>(op);
  if (!factorOp || op.getNumOperands() < 2)
    return false;
  nn::FactorRule rule = factorOp.getFactorRule();
  for (auto [f, factor] : llvm::enumerate(rule.factors))
    if (rule.operandHas(0, f) && rule.operandHas(1, f) &&
        llvm::none_of(rule.results, [&, f = int(f)](auto &dims) { return llvm::is_contained(dims, f); }))
      return true;
  return false;
}

int64_t localBytes(RankedTensorType type) {
  return int64_t(dist::getLayout(type).localElements() * dist::elementBytes(type.getElementType()));
}

// The axes of the mesh that neither an operand nor a result is split or partial over. A pipeline's axis is
// not one that work is repeated over.
std::vector<std::string> unusedAxes(Operation &op, ArrayRef<std::pair<std::string, int64_t>> mesh) {
  dist::AxisList used;
  for (TypeRange types : {TypeRange(op.getOperandTypes()), TypeRange(op.getResultTypes())})
    for (Type type : types)
      if (isa<RankedTensorType>(type))
        used.append(dist::getLayout(type).usedAxes());
  std::optional<dist::Pipeline> pipeline = dist::Pipeline::of(op.getParentOfType<ModuleOp>());
  std::vector<std::string> unused;
  for (auto &[axis, size] : mesh)
    if (size > 1 && !(pipeline && axis == pipeline->axis) &&
        llvm::none_of(used, [&, name = StringRef(axis)](const dist::AxisRef &a) { return a.name == name; }))
      unused.push_back(axis);
  return unused;
}

std::vector<std::pair<std::string, int64_t>> meshOf(ModuleOp module) {
  std::vector<std::pair<std::string, int64_t>> axes;
  for (auto op : module.getOps<dist::MeshOp>())
    for (const dist::AxisRef &axis : op.getMesh().getMesh().declared())
      axes.push_back({axis.name, axis.size});
  return axes;
}

bool isMicro(const dist::AxisRef &axis) { return axis.name == dist::kMicroAxis; }

class Collector {
public:
  explicit Collector(ModuleOp module)
      : module(module), names(module), planner(dist::Machine::of(module).links) {}
  Facts collect();

private:
  void collect(func::FuncOp func);
  OperatorFact describe(func::FuncOp func, Operation &op);
  MoveFact moveOf(dist::ReshardOp op);
  void notePadding(Type type, StringRef example);
  ParameterFact parameter(nn::VariableOp variable);

  ModuleOp module;
  NameIndex names;
  Facts facts;
  bool trains = false; // the program at hand
  dist::ReshardPlanner planner;
  llvm::StringMap<llvm::SetVector<Operation *>> users; // of each variable
  llvm::MapVector<std::pair<int64_t, int64_t>, PaddingFact> paddings;
};

MoveFact Collector::moveOf(dist::ReshardOp op) {
  auto from = cast<RankedTensorType>(op.getSource().getType()),
       to = cast<RankedTensorType>(op.getResult().getType());
  MoveFact move{typeText(from), typeText(to), {}, 0, 0};
  FailureOr<dist::ReshardPlan> plan = planner.plan(from, to);
  if (failed(plan))
    return move;
  // What is cut into microbatches moves once for each of them, and so do parameters that are not kept.
  bool repeats =
      (trains && dist::kGather.isOn(op)) || (llvm::any_of(dist::getLayout(from).splittingAxes(), isMicro) &&
                                             llvm::any_of(dist::getLayout(to).splittingAxes(), isMicro));
  int64_t times = repeats ? facts.microbatches : 1;
  move.bytes = plan->cost.bytes * times;
  move.seconds = plan->cost.seconds * times;
  for (const dist::ReshardStep &step : plan->steps)
    if (step.kind)
      move.collectives.push_back(rt::collectiveName(*step.kind) + (" " + axesText(step.axes)));
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
  for (StringRef name : names.of(&op))
    fact.names.push_back(name.str());
  fact.isForward = isForward(&op, trains);
  if (auto pattern = dist::kPattern.of(&op))
    fact.pattern = pattern.getName().str() + " [" + axesText(pattern.getAxes()) + "]";
  if (auto origin = dist::kOrigin.of(&op))
    fact.origin = origin.getValue();
  for (Value operand : op.getOperands())
    fact.operands.push_back(typeText(operand.getType()));
  std::string label = fact.module.empty() ? fact.node : fact.module;
  for (Value result : op.getResults()) {
    fact.results.push_back(typeText(result.getType()));
    if (auto type = dyn_cast<RankedTensorType>(result.getType()))
      fact.heldBytes += localBytes(type);
    notePadding(result.getType(), label);
  }
  if (fact.isForward && isProduct(op))
    fact.whole = unusedAxes(op, facts.mesh);
  return fact;
}

void Collector::collect(func::FuncOp func) {
  trains = nn::isTraining(func);
  for (Operation &op : func.getBody().front()) {
    for (Value operand : op.getOperands())
      if (auto read = dyn_cast_or_null<nn::ReadOp>(readOf(operand)); read && isForward(&op, trains))
        users[read.getVariable()].insert(&op);
    if (auto reshard = dyn_cast<dist::ReshardOp>(op)) {
      OperatorFact fact = describe(func, op);
      fact.isForward = isForwardMove(reshard, trains);
      fact.move.push_back(moveOf(reshard));
      facts.operators.push_back(std::move(fact));
    } else if (isa<nn::FactorOpInterface>(op) && !isa<nn::AccOp>(op)) {
      facts.operators.push_back(describe(func, op));
    }
  }
}

ParameterFact Collector::parameter(nn::VariableOp variable) {
  ParameterFact fact{variable.getSymName().str(),
                     variable.getSource().value_or("").str(),
                     typeText(variable.getType()),
                     variable.getTransposed(),
                     variable.getTrained(),
                     false,
                     ""};
  notePadding(variable.getType(), variable.getSymName());
  if (facts.mesh.empty() || !dist::getLayout(variable.getType()).splittingAxes().empty())
    return fact;
  fact.isReplicated = true;
  llvm::SetVector<StringRef> kinds, patterns;
  for (Operation *user : users[variable.getSymName()]) {
    kinds.insert(user->getName().stripDialect());
    if (auto pattern = dist::kPattern.of(user))
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
  facts.mesh = meshOf(module);
  facts.microbatches = dist::microbatchTurns(module);
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

void tessera::warnOfRepeats(ModuleOp module) {
  struct Repeats {
    std::vector<std::string> nodes;
    llvm::SetVector<Operation *> weights;
  };
  // Training's program has all that inference's has.
  func::FuncOp program;
  for (auto func : module.getOps<func::FuncOp>())
    if (!program || nn::isTraining(func))
      program = func;
  if (!program)
    return;
  llvm::StringSet<> wanted;
  for (Operation &op : program.getBody().front())
    if (auto pattern = dist::kPattern.of(&op))
      for (const dist::AxisRef &axis : pattern.getAxes())
        wanted.insert(axis.name);
  auto mesh = meshOf(module);
  llvm::erase_if(mesh, [&](auto &axis) { return !wanted.contains(axis.first); });
  std::map<std::pair<std::string, std::string>, Repeats> repeats;
  bool trains = nn::isTraining(program);
  llvm::DenseSet<Value> fixed; // known without inputs
  SymbolTableCollection symbols;
  for (Operation &op : program.getBody().front()) {
    if (llvm::all_of(op.getOperands(), [&](Value value) { return fixed.contains(value); }))
      fixed.insert(op.result_begin(), op.result_end());
    else if (isForward(&op, trains) && isProduct(op))
      for (const std::string &axis : unusedAxes(op, mesh)) {
        Repeats &list = repeats[{axis, op.getName().stripDialect().str()}];
        list.nodes.push_back(nodeName(op.getLoc()).str());
        for (Value operand : op.getOperands())
          if (auto read = dyn_cast_or_null<nn::ReadOp>(readOf(operand)))
            list.weights.insert(symbols.lookupNearestSymbolFrom(read, read.getVariableAttr()));
      }
  }
  constexpr size_t mostNames = 8;
  for (auto &[key, list] : repeats) {
    int64_t bytes = 0;
    for (Operation *weight : list.weights)
      bytes += localBytes(cast<RankedTensorType>(cast<nn::VariableOp>(weight).getType()));
    size_t count = list.nodes.size();
    std::string names = llvm::join(ArrayRef(list.nodes).take_front(mostNames), ", ");
    if (count > mostNames)
      names += " and " + std::to_string(count - mostNames) + " more";
    emitWarning(UnknownLoc::get(module.getContext()))
        << "every rank of \"" << key.first << "\" computes all of " << count << " " << key.second
        << (count > 1 ? " operators (" : " operator (") << bytes << " bytes of weights): " << names
        << "; give " << (count > 1 ? "them patterns" : "it a pattern") << " in a plan";
  }
}

std::string tessera::moduleOfBlocks(StringRef module) {
  std::string pattern;
  for (StringRef part : llvm::split(module, '.')) {
    bool isNumber = !part.empty() && llvm::all_of(part, llvm::isDigit);
    pattern += (pattern.empty() ? "" : ".") + (isNumber ? std::string("*") : part.str());
  }
  return pattern;
}

static std::string keyOf(const OperatorFact &fact) {
  std::string key = fact.kind + "|" + fact.pattern + "|" + moduleOfBlocks(fact.module) + "|" +
                    llvm::join(fact.operands, ";") + "|" + llvm::join(fact.results, ";") + "|" +
                    std::to_string(fact.heldBytes);
  for (const MoveFact &move : fact.move)
    key += "|" + move.from + "|" + move.to;
  return key;
}

ForwardFacts tessera::forwardOf(const Facts &facts, StringRef program) {
  ForwardFacts forward;
  std::map<std::string, int> numbers;
  for (const OperatorFact &fact : facts.operators)
    if (fact.isForward && fact.program == program) {
      forward.operators.push_back(&fact);
      forward.keys.push_back(numbers.emplace(keyOf(fact), int(numbers.size())).first->second);
    }
  return forward;
}
