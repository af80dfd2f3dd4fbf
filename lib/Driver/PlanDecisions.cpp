// See PlanDecisions.h.
#include "lib/Driver/PlanDecisions.h"
#include "dialects/nn/Attributes.h"
#include "lib/Support/Location.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "passes/Assign/NameIndex.h"
#include "passes/Assign/Pattern.h"
#include "passes/Assign/Roles.h"
#include "llvm/ADT/StringExtras.h"
#include <functional>
#include <set>

using namespace mlir;
using namespace tessera;

namespace {

using Names = std::vector<std::string>;

std::string over(const Names &axes) { return axes.empty() ? "" : " over " + llvm::join(axes, ", "); }

template <typename Rule> bool isOf(const Rule &rule, const Names &matches) {
  return rule.at.line == 0 && llvm::is_contained(matches, rule.match);
}

// The entries of a plan for a role: one for each of its globs, all the same.
template <typename Rule> class Entries : public PlanDecision {
public:
  Entries(std::vector<Rule> Plan::*rules, const Role &role) : rules(rules), matches(role.matches) {
    name = llvm::join(role.matches, ", ");
    all = role.matches;
    llvm::append_range(all, role.names);
    add("none", {});
  }
  void add(std::string text, Rule rule) {
    choices.push_back(std::move(text));
    settings.push_back(std::move(rule));
  }
  std::optional<size_t> chosen(const Plan &plan) const override {
    const Rule *first = nullptr;
    size_t count = 0;
    for (const Rule &rule : plan.*rules) {
      if (!isOf(rule, all))
        continue;
      if (first && !saysTheSame(*first, rule))
        return std::nullopt;
      first = &rule;
      ++count;
    }
    if (!first)
      return 0;
    // By names alone some of the role may be left out.
    if (count != matches.size())
      return std::nullopt;
    for (size_t i = 1; i < settings.size(); ++i)
      if (saysTheSame(*first, settings[i]))
        return i;
    return std::nullopt;
  }
  void choose(Plan &plan, size_t choice) const override {
    std::vector<Rule> &list = plan.*rules;
    size_t at = llvm::find_if(list, [&](const Rule &rule) { return isOf(rule, all); }) - list.begin();
    llvm::erase_if(list, [&](const Rule &rule) { return isOf(rule, all); });
    if (choice == 0)
      return;
    std::vector<Rule> own;
    for (const std::string &match : matches) {
      own.push_back(settings[choice]);
      own.back().match = match;
    }
    list.insert(list.begin() + std::min(at, list.size()), own.begin(), own.end());
  }
  void annotate(Plan &plan, const std::string &note) const override {
    for (Rule &rule : plan.*rules)
      if (isOf(rule, all)) {
        rule.note = note;
        return;
      }
  }

private:
  static bool saysTheSame(const OpRule &a, const OpRule &b) {
    return a.pattern == b.pattern && a.axes == b.axes;
  }
  static bool saysTheSame(const ValueRule &a, const ValueRule &b) { return a.split == b.split; }

  std::vector<Rule> Plan::*rules;
  Names matches, all; // what entries are written with; what those of a recipe may have
  std::vector<Rule> settings;
};

// The axes that split the batch.
class Batch : public PlanDecision {
public:
  // `inputs`: entries that split it, over any axes.
  Batch(std::vector<InputRule> inputs, const std::vector<Names> &sets) : inputs(std::move(inputs)) {
    name = "the batch";
    choices = {"none"};
    for (const Names &axes : sets)
      choices.push_back(llvm::join(axes, ", "));
    settings = {{}};
    llvm::append_range(settings, sets);
  }
  std::optional<size_t> chosen(const Plan &plan) const override {
    auto found = llvm::find(settings, axesOf(plan));
    return found == settings.end() ? std::nullopt : std::optional<size_t>(found - settings.begin());
  }
  void choose(Plan &plan, size_t choice) const override {
    Names before = axesOf(plan);
    llvm::erase_if(plan.inputs, [&](const InputRule &rule) { return isOwn(rule); });
    const Names &axes = settings[choice];
    // Entries of one text are in one place: the batch first.
    if (!axes.empty())
      for (auto [i, rule] : llvm::enumerate(inputs)) {
        plan.inputs.insert(plan.inputs.begin() + i, rule);
        plan.inputs[i].axes = axes;
      }
    // Values that were split along with it still are.
    for (ValueRule &rule : plan.values)
      if (auto batch = rule.split.find(0);
          rule.at.line == 0 && (batch == rule.split.end() ? Names() : batch->second) == before) {
        rule.split.erase(0);
        if (!axes.empty())
          rule.split[0] = axes;
      }
  }
  void annotate(Plan &plan, const std::string &note) const override {
    for (InputRule &rule : plan.inputs)
      if (isOwn(rule)) {
        rule.note = note;
        return;
      }
  }

private:
  bool isOwn(const InputRule &rule) const {
    return rule.at.line == 0 && rule.dim == 0 &&
           llvm::any_of(inputs, [&](const InputRule &own) { return own.match == rule.match; });
  }
  Names axesOf(const Plan &plan) const {
    auto found = llvm::find_if(plan.inputs, [&](const InputRule &rule) { return isOwn(rule); });
    return found == plan.inputs.end() ? Names() : found->axes;
  }

  std::vector<InputRule> inputs;
  std::vector<Names> settings;
};

// What is stored in pieces, over which axes.
class Storage : public PlanDecision {
public:
  explicit Storage(const std::vector<Names> &sets) {
    name = "[zero]";
    choices = {"none"};
    settings = {{}};
    for (int64_t stage : {1, 2, 3})
      for (const Names &axes : sets) {
        choices.push_back("stage " + std::to_string(stage) + over(axes));
        settings.push_back({stage, axes, {}});
      }
  }
  std::optional<size_t> chosen(const Plan &plan) const override {
    if (plan.zero.stage == 0)
      return 0;
    for (size_t i = 1; i < settings.size(); ++i)
      if (settings[i].stage == plan.zero.stage && settings[i].axes == plan.zero.axes)
        return i;
    return std::nullopt;
  }
  void choose(Plan &plan, size_t choice) const override { plan.zero = settings[choice]; }
  void annotate(Plan &plan, const std::string &note) const override { plan.zero.note = note; }

private:
  std::vector<ZeroRule> settings;
};

// Finds the decisions of one model on one mesh.
class Finder {
public:
  Finder(ModuleOp module, const Plan &plan, const DecidedOptions &decided)
      : module(module), plan(plan), decided(decided), names(module) {
    for (auto &[axis, size] : plan.mesh)
      if (size > 1 && !(plan.pipeline && plan.pipeline->axis == axis)) {
        axes.push_back(axis);
        sizes.push_back(size);
      }
    for (unsigned set = 1; set < 1u << std::min<size_t>(axes.size(), kMostAxes); ++set) {
      sets.emplace_back();
      for (size_t i = 0; i < axes.size(); ++i)
        if (set >> i & 1)
          sets.back().push_back(axes[i]);
    }
  }
  std::vector<std::unique_ptr<PlanDecision>> run();

private:
  // Of more axes not every set is a choice.
  static constexpr size_t kMostAxes = 4;

  bool isFree(StringRef option) const { return !decided.contains(option); }
  template <typename Rule> bool isUsers(const std::vector<Rule> &rules, const Role &role) const {
    return llvm::any_of(rules, [&](const Rule &rule) {
      if (rule.at.line == 0)
        return false;
      SmallVector<Operation *> matched = names.matching(rule.match);
      return llvm::any_of(role.ops, [&](Operation *op) { return llvm::is_contained(matched, op); });
    });
  }
  void addPatterns(const Role &role);
  void connect();
  void addHomes(const Role &role);
  void addBatch();

  ModuleOp module;
  const Plan &plan;
  const DecidedOptions &decided;
  NameIndex names;
  Names axes; // that may split something
  std::vector<int64_t> sizes;
  std::vector<Names> sets; // of those
  std::vector<std::unique_ptr<PlanDecision>> found;
  llvm::DenseMap<Operation *, PlanDecision *> decisionOf; // of operators with patterns
};

// Calls `each` with every choice of `count` of the numbers below `size`, in every order.
void forOrders(size_t size, size_t count, const std::function<void(ArrayRef<size_t>)> &each,
               SmallVector<size_t> chosen = {}) {
  if (chosen.size() == count)
    return each(chosen);
  for (size_t i = 0; i < size; ++i)
    if (!llvm::is_contained(chosen, i)) {
      chosen.push_back(i);
      forOrders(size, count, each, chosen);
      chosen.pop_back();
    }
}

double workOf(nn::FactorOpInterface op) {
  double work = 1;
  for (const nn::Factor &factor : op.getFactorRule().factors)
    work *= double(factor.size);
  return work;
}

} // namespace

// What a pattern decides of an operator of which nothing else is known, as text: of two patterns that decide
// the same one is enough.
static std::string choiceText(const tessera::Pattern &pattern, nn::FactorOpInterface op,
                              ArrayRef<dist::AxisList> lists) {
  if (!pattern.applies(op, lists))
    return "-";
  std::string text;
  llvm::raw_string_ostream os(text);
  Choice choice = pattern.choose(op, lists, Surroundings());
  auto add = [&](char kind, const FactorSplits &splits) {
    for (const FactorSplit &split : splits) {
      os << kind << split.factor;
      for (const dist::AxisRef &axis : split.axes)
        os << "," << axis.name;
    }
  };
  add('c', choice.compute);
  for (auto &[operand, splits] : choice.storage)
    os << operand, add('s', splits);
  for (auto &[result, splits] : choice.homes)
    os << result, add('h', splits);
  os << choice.firstFollowed << choice.keepsGathered;
  if (choice.stream)
    os << pattern.name();
  return text;
}

void Finder::addPatterns(const Role &role) {
  if (isUsers(plan.ops, role))
    return;
  auto decision = std::make_unique<Entries<OpRule>>(&Plan::ops, role);
  std::set<std::string> known;
  for (nn::FactorOpInterface op : role.ops)
    decision->work += workOf(op);
  for (const tessera::Pattern *pattern : allPatterns())
    for (size_t count = pattern->fewestAxes(); count <= pattern->axes().size(); ++count)
      forOrders(axes.size(), count, [&](ArrayRef<size_t> order) {
        SmallVector<dist::AxisList> lists;
        OpRule rule{"", pattern->name().str(), {}, {}};
        for (size_t i : order) {
          lists.push_back({dist::AxisRef{axes[i], 1, sizes[i]}});
          rule.axes.push_back(axes[i]);
        }
        std::string text, none;
        for (nn::FactorOpInterface op : role.ops) {
          text += choiceText(*pattern, op, lists) + ";";
          none += "-;";
        }
        if (text != none && known.insert(text).second)
          decision->add(rule.pattern + over(rule.axes), rule);
      });
  if (decision->choices.size() == 1)
    return;
  for (nn::FactorOpInterface op : role.ops)
    decisionOf[op] = decision.get();
  found.push_back(std::move(decision));
}

// From each operator with a decision forward to the next that have one.
void Finder::connect() {
  for (auto [op, decision] : decisionOf) {
    SmallVector<Operation *> work = {op};
    llvm::DenseSet<Operation *> seen;
    while (!work.empty())
      for (Operation *user : work.pop_back_val()->getUsers()) {
        PlanDecision *next = decisionOf.lookup(user);
        if (next && next != decision && !decision->feeds(*next))
          decision->next.push_back(next->name);
        else if (!next && seen.insert(user).second)
          work.push_back(user);
      }
  }
}

void Finder::addHomes(const Role &role) {
  if (isUsers(plan.values, role))
    return;
  auto decision = std::make_unique<Entries<ValueRule>>(&Plan::values, role);
  decision->name = "the home of " + decision->name;
  auto type = cast<RankedTensorType>(role.ops.front()->getResult(0).getType());
  decision->work = double(type.getNumElements()) * double(role.ops.size());
  Names batch = plan.inputs.empty() ? Names() : plan.inputs.front().axes;
  auto add = [&](std::map<int64_t, Names> split) {
    std::string text;
    for (auto &[dim, axes] : split)
      text += (text.empty() ? "dimension " : ", dimension ") + std::to_string(dim) + over(axes);
    decision->add(text.empty() ? "whole" : text, {"", split, {}});
  };
  std::map<int64_t, Names> whole;
  if (!batch.empty())
    whole[0] = batch;
  add(whole);
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    for (auto [axis, size] : llvm::zip(axes, sizes)) {
      if (llvm::is_contained(batch, axis) || type.getDimSize(dim) < size)
        continue;
      std::map<int64_t, Names> split = whole;
      split[dim].push_back(axis);
      add(split);
    }
  found.push_back(std::move(decision));
}

void Finder::addBatch() {
  // An axis of the user's mesh, over which no entry splits it, has an option's name alone.
  auto isOpen = [&](StringRef option, StringRef axis) {
    auto splits = [&](const InputRule &rule) { return llvm::is_contained(rule.axes, axis); };
    return isFree(option) || (llvm::any_of(plan.mesh, [&](auto &each) { return each.first == axis; }) &&
                              llvm::none_of(plan.inputs, splits));
  };
  if (!isOpen("dp", "data") || !isOpen("ep", "expert") ||
      llvm::any_of(plan.inputs, [](const InputRule &rule) { return rule.at.line > 0; }))
    return;
  // Which inputs have the batch, as --dp finds them.
  ScopedDiagnosticHandler quiet(module.getContext(), [](Diagnostic &) { return success(); });
  AssignOptions options;
  options.dp = 2;
  Plan other;
  if (failed(applyRecipe(module, options, other)))
    return;
  found.push_back(std::make_unique<Batch>(other.inputs, sets));
  if (!isFree("dp") || !isFree("ep")) // nothing but this makes use of that axis
    found.back()->work = std::numeric_limits<double>::infinity();
}

std::vector<std::unique_ptr<PlanDecision>> Finder::run() {
  if (axes.empty())
    return {};
  // What only some patterns are for; `data` would split anything.
  auto nameOf = [&](nn::FactorOpInterface op) {
    bool isAny = llvm::any_of(allPatterns(), [&](const tessera::Pattern *pattern) {
      return pattern->name() != "data" && pattern->applies(op, {});
    });
    bool mayChange = attentionOf(op) ? isFree("sp-mode") : isFree("tp-mode");
    return isAny && mayChange ? nameForEntry(op, names) : std::string();
  };
  for (const Role &role : rolesOf(module, names, nameOf))
    addPatterns(role);
  connect();
  // The last operator of a node makes its value.
  std::map<StringRef, Operation *> last;
  for (Operation &op : nn::inferenceProgram(module).getFunctionBody().front())
    last[nodeName(op.getLoc())] = &op;
  auto valueOf = [&](nn::FactorOpInterface op) {
    StringRef node = nodeName(op->getLoc());
    if (node.empty() || last[node] != op || op->getNumOperands() == 0 || op->getNumResults() != 1 ||
        readOf(op->getResult(0)))
      return std::string();
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    bool isRead = llvm::hasNItemsOrMore(op->getResult(0).getUsers(), 2);
    return isRead && type.getRank() > 1 && isa<FloatType>(type.getElementType()) ? node.str() : std::string();
  };
  if (isFree("sp-mode"))
    for (const Role &role : rolesOf(module, names, valueOf))
      addHomes(role);
  addBatch();
  bool trains = llvm::any_of(module.getOps<func::FuncOp>(), nn::isTraining);
  if (trains && isFree("zero") && plan.zero.at.line == 0)
    found.push_back(std::make_unique<Storage>(sets));
  llvm::stable_sort(found, [](auto &a, auto &b) { return a->work > b->work; });
  return std::move(found);
}

std::vector<std::unique_ptr<PlanDecision>> tessera::decisionsOf(ModuleOp module, const Plan &plan,
                                                                const DecidedOptions &decided) {
  return Finder(module, plan, decided).run();
}
