// See Blocks.h.
#include "passes/Assign/Blocks.h"
#include "dialects/nn/NN.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/Assign/Fold.h"
#include "passes/Assign/Stages.h"
#include <map>
#include <set>

using namespace mlir;
using namespace tessera;

// What two operators have alike that compute the same of other operands: all but names and the numbers of
// random streams; of a variable that is named, what it is.
static std::string kindOf(Operation *op, SymbolTableCollection &symbols) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << op->getName() << op->getOperandTypes() << op->getResultTypes();
  for (NamedAttribute attr : op->getAttrs()) {
    if (attr.getNameDialect() || attr.getName() == "id")
      continue;
    auto name = dyn_cast<FlatSymbolRefAttr>(attr.getValue());
    if (auto variable = name ? symbols.lookupNearestSymbolFrom<nn::VariableOp>(op, name) : nn::VariableOp())
      os << variable.getRole() << variable.getTrained();
    else
      os << attr.getName() << attr.getValue();
  }
  return text;
}

namespace {

// Whether the copies of a run take their operands alike.
class Wiring {
public:
  Wiring(const BlockRun &run, const llvm::DenseMap<Operation *, int> &kinds) : run(run), kinds(kinds) {
    for (size_t i = 0; i < run.ops.size(); ++i)
      position[run.ops[i]] = i;
  }
  bool isAlike();
  /// How many of the last copies are read from outside; none where others are.
  std::optional<size_t> readFromOutside() const;

private:
  size_t copyOf(Operation *op) const { return position.at(op) / run.length(); }
  bool takeAlike(Value a, size_t copyOfA, Value b, size_t copyOfB);

  const BlockRun &run;
  const llvm::DenseMap<Operation *, int> &kinds;
  llvm::DenseMap<Operation *, size_t> position; // in the run
  std::set<std::pair<void *, void *>> known;    // values outside that are alike, of the two copies at hand
};

} // namespace

// `a` is read for one copy as `b` is for a later one.
bool Wiring::takeAlike(Value a, size_t copyOfA, Value b, size_t copyOfB) {
  if (a == b)
    return true;
  Operation *from = a.getDefiningOp(), *to = b.getDefiningOp();
  if (auto there = position.find(to); to && there != position.end()) {
    size_t back = copyOfB - there->second / run.length();
    auto here = position.find(from);
    if (copyOfA < back) // of what is before the run
      return here == position.end() && a.getType() == b.getType();
    return here != position.end() &&
           cast<OpResult>(a).getResultNumber() == cast<OpResult>(b).getResultNumber() &&
           here->second + (copyOfB - copyOfA) * run.length() == there->second;
  }
  if (!from || !to || position.contains(from) || kinds.at(from) != kinds.at(to) ||
      cast<OpResult>(a).getResultNumber() != cast<OpResult>(b).getResultNumber())
    return false;
  if (!known.insert({a.getAsOpaquePointer(), b.getAsOpaquePointer()}).second)
    return true;
  return llvm::all_of_zip(from->getOperands(), to->getOperands(),
                          [&](Value a, Value b) { return takeAlike(a, copyOfA, b, copyOfB); });
}

bool Wiring::isAlike() {
  // The second copy is like those behind it in all, the first in what is not of a copy before.
  for (size_t copy = 0; copy < run.copies; ++copy) {
    known.clear();
    if (copy == 1)
      continue;
    size_t first = std::min<size_t>(copy, 1), second = std::max<size_t>(copy, 1);
    for (auto [a, b] : llvm::zip(run.copy(first), run.copy(second)))
      if (!llvm::all_of_zip(a->getOperands(), b->getOperands(),
                            [&](Value a, Value b) { return takeAlike(a, first, b, second); }))
        return false;
  }
  return true;
}

std::optional<size_t> Wiring::readFromOutside() const {
  size_t read = 1;
  for (Operation *op : run.ops)
    for (Operation *user : op->getUsers())
      if (!position.contains(user))
        read = std::max(read, run.copies - copyOf(op));
  return read <= run.copies / 2 ? std::optional(read) : std::nullopt;
}

std::vector<BlockRun> tessera::blockRunsOf(func::FuncOp func) {
  std::map<std::string, int> numbers;
  llvm::DenseMap<Operation *, int> kinds;
  SymbolTableCollection symbols;
  for (Operation &op : func.getBody().front())
    kinds[&op] = numbers.emplace(kindOf(&op, symbols), int(numbers.size())).first->second;
  Dependence dependence(func);
  ArrayRef<Operation *> ops = dependence.places();
  std::vector<BlockRun> runs;
  std::vector<int> keys;
  for (Operation *op : ops)
    keys.push_back(kinds.at(op));
  for (const Folded &folded : foldRepeats(keys)) {
    if (folded.times < 3)
      continue;
    BlockRun run{folded.times, ops.slice(folded.element, folded.count).vec()};
    Wiring wiring(run, kinds);
    std::optional<size_t> read = wiring.readFromOutside();
    if (!read || !wiring.isAlike())
      continue;
    run.read = *read;
    runs.push_back(std::move(run));
  }
  return runs;
}

void tessera::keepCopies(const BlockRun &run, size_t kept) {
  Block *block = run.ops.front()->getBlock();
  auto module = run.ops.front()->getParentOfType<ModuleOp>();
  const size_t back = (run.copies - kept) * run.length();
  llvm::DenseSet<Operation *> own(run.ops.begin(), run.ops.end()),
      dropped(run.ops.end() - back, run.ops.end());
  for (size_t i = back; i < run.ops.size(); ++i)
    for (auto [from, to] : llvm::zip(run.ops[i]->getResults(), run.ops[i - back]->getResults()))
      from.replaceUsesWithIf(to, [&](OpOperand &use) { return !own.contains(use.getOwner()); });
  std::set<StringRef> before;
  for (auto read : block->getOps<nn::ReadOp>())
    before.insert(read.getVariable());
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*block)))
    if (dropped.contains(&op) || isOpTriviallyDead(&op))
      op.erase();
  std::set<StringRef> after;
  module.walk([&](nn::ReadOp read) { after.insert(read.getVariable()); });
  for (auto variable : llvm::make_early_inc_range(module.getOps<nn::VariableOp>()))
    if (before.count(variable.getSymName()) && !after.count(variable.getSymName()))
      variable.erase();
}
