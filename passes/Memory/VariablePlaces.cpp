// See VariablePlaces.h.
#include "passes/Memory/VariablePlaces.h"
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pack.h"
#include "dialects/dist/Pipeline.h"
#include "passes/Memory/Storage.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tessera;

// The variables that a program reads or writes, in order of first use.
static SetVector<StringRef> usedBy(func::FuncOp program) {
  SetVector<StringRef> names;
  program.walk([&](Operation *op) {
    llvm::TypeSwitch<Operation *>(op).Case<nn::ReadOp, nn::AssignOp, dist::ReadCopyOp, dist::AssignCopyOp>(
        [&](auto access) { names.insert(access.getVariable()); });
  });
  return names;
}

// The programs of its stage, itself among them.
static SmallVector<func::FuncOp> programsBeside(func::FuncOp program) {
  auto all = program->getParentOfType<ModuleOp>().getOps<func::FuncOp>();
  return llvm::filter_to_vector(
      all, [&](func::FuncOp other) { return dist::stageOf(other) == dist::stageOf(program); });
}

int64_t VariablePlaces::bytes(nn::VariableOp variable) {
  return dist::bytesOf(dist::localType(cast<RankedTensorType>(variable.getType())));
}

VariablePlaces::VariablePlaces(ModuleOp module)
    : VariablePlaces(module, llvm::to_vector(module.getOps<func::FuncOp>())) {}

VariablePlaces::VariablePlaces(func::FuncOp program)
    : VariablePlaces(program->getParentOfType<ModuleOp>(), programsBeside(program)) {}

VariablePlaces::VariablePlaces(ModuleOp module, ArrayRef<func::FuncOp> programs) {
  SymbolTable symbols(module);
  auto find = [&](StringRef name) { return symbols.lookup<nn::VariableOp>(name); };
  auto end = [&](StringRef name, int64_t begin) {
    nn::VariableOp variable = find(name);
    return int64_t(begin + llvm::alignTo(bytes(variable), bufferAlignment(module, dist::restsIn(variable))));
  };
  // Ranks of different stages have variables of their own.
  std::map<int64_t, llvm::MapVector<StringRef, int64_t>> users; // by stage, how many programs use a variable
  std::vector<SetVector<StringRef>> used;
  for (func::FuncOp program : programs) {
    used.push_back(usedBy(program));
    for (StringRef name : used.back())
      ++users[dist::stageOf(program)][name];
  }
  for (auto &[stage, counts] : users) {
    auto order = counts.takeVector();
    llvm::stable_sort(order, [](auto &a, auto &b) { return a.second > b.second; });
    std::map<Tier, int64_t> next;
    for (auto [name, count] : order) {
      int64_t &offset = next[dist::restsIn(find(name))];
      offsets[stage][name] = offset;
      offset = end(name, offset);
    }
  }
  for (auto [program, names] : llvm::zip(programs, used))
    for (StringRef name : names) {
      int64_t &last = ends[{program, dist::restsIn(find(name))}];
      last = std::max(last, end(name, offset(program, name)));
    }
}

int64_t VariablePlaces::end(func::FuncOp program, Tier tier) const {
  auto it = ends.find({program.getOperation(), tier});
  return it == ends.end() ? 0 : it->second;
}

int64_t VariablePlaces::offset(func::FuncOp program, StringRef variable) const {
  return offsets.at(dist::stageOf(program)).lookup(variable);
}
