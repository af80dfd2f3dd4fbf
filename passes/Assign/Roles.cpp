// See Roles.h.
#include "passes/Assign/Roles.h"
#include "dialects/nn/Attributes.h"
#include "passes/Assign/Fold.h"
#include "passes/Assign/NameIndex.h"
#include "passes/Assign/Pattern.h"
#include "passes/Assign/Stages.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include <map>
#include <set>

using namespace mlir;
using namespace tessera;

std::string tessera::nameForEntry(nn::FactorOpInterface op, const NameIndex &names) {
  if (int weight = parameterOperand(op); weight >= 0)
    return cast<nn::ReadOp>(readOf(op->getOperand(weight))).getVariable().str();
  ArrayRef<StringRef> list = names.of(op);
  return list.empty() ? "" : list.front().str();
}

// Where operators stand: a number for each place of a block, the same in all its copies. Operators that no
// input or no parameter leads to, such as those of a mask, are made where they are needed first, and are no
// part of a block.
static llvm::DenseMap<Operation *, size_t> placesOf(func::FuncOp func) {
  Dependence dependence(func);
  ArrayRef<Operation *> ops = dependence.places();
  llvm::DenseMap<Operation *, size_t> places;
  std::map<std::string, int> numbers;
  std::vector<int> keys;
  for (Operation *op : ops) {
    std::string key;
    llvm::raw_string_ostream os(key);
    os << op->getName() << op->getOperandTypes() << op->getResultTypes();
    keys.push_back(numbers.emplace(key, int(numbers.size())).first->second);
  }
  for (const Folded &run : foldRepeats(keys)) {
    size_t length = run.count / run.times;
    for (size_t i = 0; i < run.count; ++i)
      places[ops[run.element + i]] = run.element + i % length;
  }
  return places;
}

// Numbers and what is between them, in turn: a name of a layer has those of another but for the numbers.
static std::vector<std::string> partsOf(StringRef name) {
  std::vector<std::string> parts = {""};
  for (char c : name) {
    if (!parts.back().empty() && llvm::isDigit(parts.back().back()) != llvm::isDigit(c))
      parts.emplace_back();
    parts.back() += c;
  }
  return parts;
}

// `transformer.h.*.mlp.c_fc.weight`: with a star for the numbers that differ, or between what all begin and
// end with.
static std::string globOf(ArrayRef<std::string> names) {
  std::vector<std::string> parts = partsOf(names.front());
  std::string prefix = names.front(), suffix = names.front();
  bool areAlike = true;
  for (const std::string &name : names) {
    std::vector<std::string> others = partsOf(name);
    areAlike &= others.size() == parts.size();
    for (size_t i = 0; areAlike && i < parts.size(); ++i)
      if (parts[i] != others[i]) {
        areAlike = parts[i] == "*" || (llvm::isDigit(parts[i][0]) && llvm::isDigit(others[i][0]));
        parts[i] = "*";
      }
    while (!StringRef(name).starts_with(prefix))
      prefix.pop_back();
    while (!StringRef(name).ends_with(suffix))
      suffix.erase(0, 1);
  }
  return areAlike ? llvm::join(parts, "") : prefix + "*" + suffix;
}

// `layer.?.output`, `layer.??.output`: a star would match `layer.0.attention.output`, too.
static std::vector<std::string> globsByLength(ArrayRef<std::string> names) {
  std::set<std::string> globs;
  std::string joined = globOf(names);
  for (const std::string &name : names) {
    std::string glob;
    size_t at = 0;
    for (const std::string &part : partsOf(name)) {
      bool differs = llvm::isDigit(part[0]) && at < joined.size() && joined[at] == '*';
      glob += differs ? std::string(part.size(), '?') : part;
      at += differs ? 1 : part.size();
    }
    globs.insert(glob);
  }
  return {globs.begin(), globs.end()};
}

static std::set<Operation *> forwardOf(const NameIndex &names, ArrayRef<std::string> globs) {
  std::set<Operation *> found;
  for (const std::string &glob : globs)
    for (Operation *op : names.matching(glob))
      if (isa<nn::FactorOpInterface>(op) && !nn::kGradOf.isOn(op))
        found.insert(op);
  return found;
}

// One glob for all of them, if it matches nothing else: of their names, else of names that the framework has
// for what they read.
static std::vector<std::string> matchesOf(const Role &role, const NameIndex &names) {
  if (role.names.size() == 1)
    return role.names;
  const std::set<Operation *> meant = forwardOf(names, role.names);
  std::vector<std::vector<std::string>> lists = {role.names};
  for (nn::FactorOpInterface op : role.ops)
    for (auto [i, name] : llvm::enumerate(names.of(op))) {
      lists.resize(std::max(lists.size(), i + 2));
      lists[i + 1].push_back(name.str());
    }
  for (const std::vector<std::string> &list : lists)
    if (std::string glob = globOf(list); forwardOf(names, {glob}) == meant)
      return {glob};
  for (const std::vector<std::string> &list : lists)
    if (std::vector<std::string> globs = globsByLength(list);
        globs.size() < role.names.size() && forwardOf(names, globs) == meant)
      return globs;
  return role.names;
}

std::vector<Role> tessera::rolesOf(ModuleOp module, const NameIndex &names,
                                   llvm::function_ref<std::string(nn::FactorOpInterface)> nameOf) {
  // What has one name is one thing to decide, wherever it stands.
  struct Named {
    std::set<size_t> places;
    SmallVector<nn::FactorOpInterface> ops;
  };
  llvm::MapVector<StringRef, Named> byName;
  llvm::StringMap<char> texts; // which own the names
  auto func = cast<func::FuncOp>(nn::inferenceProgram(module));
  llvm::DenseMap<Operation *, size_t> places = placesOf(func);
  for (Operation &op : func.getBody().front()) {
    auto factorOp = dyn_cast<nn::FactorOpInterface>(op);
    std::string name = factorOp ? nameOf(factorOp) : "";
    if (name.empty())
      continue;
    Named &named = byName[texts.try_emplace(name).first->first()];
    if (auto place = places.find(&op); place != places.end())
      named.places.insert(place->second);
    named.ops.push_back(factorOp);
  }
  std::map<std::set<size_t>, size_t> known;
  std::vector<Role> roles;
  for (auto &[name, named] : byName) {
    size_t number =
        named.places.empty() ? roles.size() : known.emplace(named.places, roles.size()).first->second;
    if (number == roles.size())
      roles.emplace_back();
    Role &role = roles[number];
    role.names.push_back(name.str());
    role.ops.append(named.ops);
  }
  for (Role &role : roles)
    role.matches = matchesOf(role, names);
  return roles;
}

void tessera::listByRole(ModuleOp module, const NameIndex &names, std::vector<OpRule> &rules, size_t first) {
  std::map<std::string, std::vector<size_t>> entries; // for a name, in their order
  for (size_t i = first; i < rules.size(); ++i)
    entries[rules[i].match].push_back(i);
  auto saysTheSame = [&](size_t a, size_t b) {
    return rules[a].pattern == rules[b].pattern && rules[a].axes == rules[b].axes;
  };
  std::set<size_t> dropped;
  for (const Role &role : rolesOf(module, names, [&](auto op) { return nameForEntry(op, names); })) {
    const std::vector<size_t> own = entries[role.names.front()];
    std::set<std::string> distinct(role.names.begin(), role.names.end());
    if (role.matches.size() == role.names.size() || distinct.size() < role.names.size() || own.empty() ||
        !llvm::all_of(role.names, [&](const std::string &name) {
          const std::vector<size_t> &others = entries[name];
          return others.size() == own.size() && llvm::all_of_zip(own, others, saysTheSame);
        }))
      continue;
    for (auto [i, name] : llvm::enumerate(role.names))
      for (size_t entry : entries[name]) {
        if (i < role.matches.size())
          rules[entry].match = role.matches[i];
        else
          dropped.insert(entry);
      }
  }
  std::vector<OpRule> kept;
  for (size_t i = 0; i < rules.size(); ++i)
    if (!dropped.count(i))
      kept.push_back(std::move(rules[i]));
  rules = std::move(kept);
}
