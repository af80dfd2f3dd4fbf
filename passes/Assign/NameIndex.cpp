#include "passes/Assign/NameIndex.h"
#include "dialects/nn/NN.h"
#include "lib/Support/Location.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Assign/Pattern.h"
#include "llvm/ADT/STLExtras.h"
#include <fnmatch.h>

using namespace mlir;
using namespace tessera;

bool tessera::globMatches(StringRef glob, StringRef text) {
  return glob == text || fnmatch(glob.str().c_str(), text.str().c_str(), 0) == 0;
}

bool tessera::isLiteral(StringRef glob) { return glob.find_first_of("*?[\\") == StringRef::npos; }

static SmallVector<StringRef> namesOf(Operation *op, SymbolTableCollection &symbols) {
  SmallVector<StringRef> names;
  auto add = [&](StringRef name) {
    if (!name.empty())
      names.push_back(name);
  };
  add(nodeName(op->getLoc()));
  add(modulePath(op->getLoc()));
  if (op->getNumOperands() > 1)
    for (Value operand : op->getOperands())
      if (auto read = dyn_cast_or_null<nn::ReadOp>(readOf(operand))) {
        add(read.getVariable());
        if (auto variable = symbols.lookupNearestSymbolFrom<nn::VariableOp>(read, read.getVariableAttr()))
          add(variable.getSource().value_or(""));
      }
  return names;
}

NameIndex::NameIndex(ModuleOp module) {
  SymbolTableCollection symbols;
  for (auto func : module.getOps<func::FuncOp>())
    for (Operation &op : func.getBody().front()) {
      position[&op] = ops.size();
      names.push_back(namesOf(&op, symbols));
      for (StringRef name : names.back()) {
        SmallVector<size_t> &positions = byName[name];
        if (positions.empty() || positions.back() != ops.size()) // a node may have its module's name
          positions.push_back(ops.size());
      }
      ops.push_back(&op);
    }
}

SmallVector<Operation *> NameIndex::matching(StringRef glob) const {
  SmallVector<size_t> found;
  if (isLiteral(glob)) {
    found = byName.lookup(glob);
  } else {
    for (auto &[name, positions] : byName)
      if (globMatches(glob, name))
        llvm::append_range(found, positions);
    llvm::sort(found);
    found.erase(llvm::unique(found), found.end());
  }
  return llvm::map_to_vector(found, [&](size_t i) { return ops[i]; });
}

std::string NameIndex::nearest(StringRef glob) const {
  StringRef best;
  std::string text;
  unsigned distance = ~0u;
  for (char c : glob.ltrim("*."))
    if (c != '*' && c != '?')
      text += c;
  for (ArrayRef<StringRef> list : names)
    for (StringRef name : list) {
      SmallVector<StringRef> parts = {name};
      name.split(parts, '.', -1, false);
      for (StringRef part : parts)
        if (unsigned d = part.edit_distance(text); d < distance)
          distance = d, best = name;
    }
  return best.empty() ? "" : "; the nearest is \"" + best.str() + "\"";
}
