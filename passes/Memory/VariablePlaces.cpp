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

int64_t VariablePlaces::bytes(nn::VariableOp variable) {
  return dist::bytesOf(dist::localType(cast<RankedTensorType>(variable.getType())));
}

VariablePlaces::VariablePlaces(ModuleOp module) {
  SymbolTable symbols(module);
  auto find = [&](StringRef name) { return symbols.lookup<nn::VariableOp>(name); };
  auto end = [&](StringRef name, int64_t begin) {
    nn::VariableOp variable = find(name);
    return int64_t(begin + llvm::alignTo(bytes(variable), bufferAlignment(module, dist::restsIn(variable))));
  };
  // Ranks of different stages have variables of their own.
  std::map<int64_t, llvm::MapVector<StringRef, int64_t>> users; // by stage, how many programs use a variable
  for (auto program : module.getOps<func::FuncOp>())
    for (StringRef name : usedBy(program))
      ++users[dist::stageOf(program)][name];
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
  for (auto program : module.getOps<func::FuncOp>())
    for (StringRef name : usedBy(program)) {
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
