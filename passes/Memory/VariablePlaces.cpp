// See VariablePlaces.h.
#include "passes/Memory/VariablePlaces.h"
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pack.h"
#include "dialects/dist/Pipeline.h"
#include "passes/Memory/Storage.h"

using namespace mlir;
using namespace tessera;

// The variables that a program reads or writes, in order of first use.
static SetVector<StringRef> usedBy(func::FuncOp program) {
  SetVector<StringRef> names;
  program.walk([&](Operation *op) {
    if (auto read = dyn_cast<nn::ReadOp>(op))
      names.insert(read.getVariable());
    else if (auto assign = dyn_cast<nn::AssignOp>(op))
      names.insert(assign.getVariable());
  });
  return names;
}

int64_t VariablePlaces::bytes(nn::VariableOp variable) {
  return dist::bytesOf(dist::localType(cast<RankedTensorType>(variable.getType())));
}

VariablePlaces::VariablePlaces(ModuleOp module) {
  SymbolTable symbols(module);
  auto end = [&](StringRef name, int64_t begin) {
    return int64_t(begin + llvm::alignTo(bytes(symbols.lookup<nn::VariableOp>(name)), kBufferAlignment));
  };
  // Ranks of different stages have variables of their own.
  std::map<int64_t, llvm::MapVector<StringRef, int64_t>> users; // by stage, how many programs use a variable
  for (auto program : module.getOps<func::FuncOp>())
    for (StringRef name : usedBy(program))
      ++users[dist::stageOf(program)][name];
  for (auto &[stage, counts] : users) {
    auto order = counts.takeVector();
    llvm::stable_sort(order, [](auto &a, auto &b) { return a.second > b.second; });
    int64_t offset = 0;
    for (auto [name, count] : order) {
      offsets[stage][name] = offset;
      offset = end(name, offset);
    }
  }
  for (auto program : module.getOps<func::FuncOp>())
    for (StringRef name : usedBy(program))
      ends[program] = std::max(ends.lookup(program), end(name, offset(program, name)));
}

int64_t VariablePlaces::offset(func::FuncOp program, StringRef variable) const {
  return offsets.at(dist::stageOf(program)).lookup(variable);
}
