// The recipe: finds, by structure alone, what Megatron-LM does by hand, and writes it down as a plan.
#include "dialects/dist/Attributes.h"
#include "dialects/nn/Attributes.h"
#include "lib/Support/Location.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Assign/NameIndex.h"
#include "passes/Assign/Passes.h"
#include "passes/Assign/Pattern.h"
#include "passes/Assign/Plan.h"
#include "passes/Assign/Roles.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include <cmath>

using namespace mlir;
using namespace tessera;

namespace {

// A value and those of its dimensions that the columns of a product run along.
struct Flow {
  Value value;
  llvm::SmallBitVector dims;
};

// Where the columns of a product go: the products that sum over them, attentions on the way, and whether they
// end as classes of a loss or as an output.
struct Columns {
  llvm::SetVector<Operation *> rows, attentions;
  bool endsAsClasses = false;
};

} // namespace

// Dimensions of a reshape's result that the dimensions `dims` of its operand become.
static llvm::SmallBitVector reshaped(Operation *op, const llvm::SmallBitVector &dims) {
  auto in = cast<RankedTensorType>(op->getOperand(0).getType()),
       out = cast<RankedTensorType>(op->getResult(0).getType());
  llvm::SmallBitVector result(out.getRank());
  int64_t low = 1;
  for (int d = in.getRank() - 1; d >= 0; --d) {
    int64_t high = low * in.getDimSize(d);
    if (dims[d]) {
      int64_t outLow = 1;
      for (int k = out.getRank() - 1; k >= 0; --k) {
        int64_t outHigh = outLow * out.getDimSize(k);
        if (out.getDimSize(k) > 1 && outLow < high && low < outHigh)
          result.set(k);
        outLow = outHigh;
      }
    }
    low = high;
  }
  return result;
}

static int weightColumns(nn::FactorOpInterface op, const tessera::Pattern &column) {
  return column.choose(op, {dist::AxisList()}, {}).compute[0].factor;
}

static Columns follow(nn::FactorOpInterface product, const tessera::Pattern &column,
                      const tessera::Pattern &row, const tessera::Pattern &heads) {
  Columns found;
  llvm::SmallVector<Flow> work;
  llvm::DenseSet<Value> seen;
  nn::FactorRule rule = product.getFactorRule();
  int f = weightColumns(product, column);
  llvm::SmallBitVector dims(rule.results[0].size());
  for (auto [d, factor] : llvm::enumerate(rule.results[0]))
    if (factor == f)
      dims.set(d);
  work.push_back({product->getResult(0), dims});
  while (!work.empty()) {
    Flow flow = work.pop_back_val();
    if (!seen.insert(flow.value).second)
      continue;
    for (OpOperand &use : flow.value.getUses()) {
      Operation *user = use.getOwner();
      if (nn::kGradOf.isOn(user))
        continue;
      if (isa<func::ReturnOp>(user)) {
        found.endsAsClasses = true;
        continue;
      }
      auto factorOp = dyn_cast<nn::FactorOpInterface>(user);
      if (!factorOp)
        continue;
      nn::FactorRule next = factorOp.getFactorRule();
      if (next.isReshape) {
        work.push_back({user->getResult(0), reshaped(user, flow.dims)});
        continue;
      }
      llvm::SmallBitVector factors(next.factors.size());
      for (auto [d, factor] : llvm::enumerate(next.operands[use.getOperandNumber()])) {
        if (!flow.dims[d] || factor < 0)
          continue;
        factors.set(factor);
        bool inResult = llvm::any_of(next.results, [&](auto &r) { return llvm::is_contained(r, factor); });
        found.endsAsClasses |= next.factors[factor].kind == nn::FactorKind::Cooperative && !inResult;
        if (next.factors[factor].kind == nn::FactorKind::Reduction && row.applies(factorOp, {}) &&
            row.choose(factorOp, {dist::AxisList()}, {}).compute[0].factor == int(factor))
          found.rows.insert(user);
      }
      if (heads.applies(factorOp, {}))
        found.attentions.insert(user);
      // A norm of all columns ends the flow; one of each head leaves the heads to follow.
      for (auto [r, result] : llvm::enumerate(user->getResults())) {
        llvm::SmallBitVector tracked(next.results[r].size());
        for (auto [d, factor] : llvm::enumerate(next.results[r]))
          if (factor >= 0 && factors[factor] && next.factors[factor].kind == nn::FactorKind::PassThrough)
            tracked.set(d);
        if (tracked.any())
          work.push_back({result, tracked});
      }
    }
  }
  return found;
}

// Splits the batch over `axes`, for `option`.
static LogicalResult splitBatch(ModuleOp module, Plan &plan, StringRef option,
                                const std::vector<std::string> &axes) {
  FunctionOpInterface func = nn::inferenceProgram(module);
  std::map<int64_t, std::vector<std::string>> byExtent;
  for (BlockArgument arg : func.getArguments()) {
    auto name = nn::kName.ofArgument(func, arg.getArgNumber());
    auto type = cast<RankedTensorType>(arg.getType());
    if (type.getRank() > 0 && name && nn::inputKind(func, arg.getArgNumber()) == nn::InputKind::Data)
      byExtent[type.getDimSize(0)].push_back(name.str());
  }
  size_t most = 0, ties = 0;
  int64_t extent = 0;
  for (auto &[size, names] : byExtent) {
    if (names.size() > most)
      most = names.size(), ties = 1, extent = size;
    else if (names.size() == most)
      ++ties;
  }
  if (most == 0)
    return module.emitError(option) << ": the model has no input with a batch dimension";
  if (ties > 1)
    return module.emitError(option) << ": it is not clear which inputs share the batch dimension; say so "
                                       "with [[input]] entries of a plan";
  for (const std::string &name : byExtent[extent])
    plan.inputs.push_back({name, 0, axes, {}});
  // What training adds is split along.
  std::set<std::string> added;
  for (auto f : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < f.getNumArguments(); ++i)
      if (nn::InputKind kind = nn::inputKind(f, i);
          kind == nn::InputKind::Labels || kind == nn::InputKind::Target)
        if (auto name = nn::kName.ofArgument(f, i); name && added.insert(name.str()).second)
          plan.inputs.push_back({name.str(), 0, axes, {}});
  return success();
}

using Chosen = llvm::MapVector<Operation *, StringRef>;

// Whether a table is looked up by what the program computes with, and a split of its rows over n ranks is
// worth it.
static bool isLargeLookup(nn::FactorOpInterface op, const Linear &linear, int64_t n) {
  Operation *ids = op->getOperand(linear.input).getDefiningOp();
  bool free = ids && ids->getNumOperands() == 0;
  return linear.lookup && !free && op.getFactorRule().factors[linear.in].size / 8 >= n;
}

// Megatron's: pairs of products as column and row, attentions between them by heads, tables and heads by
// vocabulary.
static Chosen pairProducts(ArrayRef<nn::FactorOpInterface> ops, int64_t n) {
  const tessera::Pattern &column = *findPattern("column"), &row = *findPattern("row"),
                         &heads = *findPattern("heads");
  Chosen chosen;
  auto isTaken = [&](Operation *other) { return chosen.contains(other) && chosen.lookup(other) != "row"; };
  // Those around attentions first: a product that widens the embeddings would take the first block's queries,
  // keys and values for its rows.
  for (bool aroundAttention : {true, false})
    for (nn::FactorOpInterface op : ops) {
      auto linear = linearOf(op);
      if (!linear || chosen.contains(op))
        continue;
      if (column.applies(op, {}) && row.applies(op, {})) {
        Columns found = follow(op, column, row, heads);
        if (aroundAttention && found.attentions.empty())
          continue;
        bool feedsProducts = !found.rows.empty();
        found.rows.remove_if(isTaken);
        if (!found.rows.empty()) {
          chosen.insert({op, "column"});
          for (Operation *other : found.rows)
            chosen.insert({other, "row"});
          for (Operation *other : found.attentions)
            chosen.insert({other, "heads"});
        } else if (found.endsAsClasses && !feedsProducts) {
          chosen.insert({op, "vocab"});
        }
      } else if (isLargeLookup(op, *linear, n)) {
        chosen.insert({op, "vocab"});
      }
    }
  return chosen;
}

// All products with parameters, and the look-ups whose results they work on, over one grid.
static Chosen layOverGrid(ArrayRef<nn::FactorOpInterface> ops, const tessera::Pattern &grid, int64_t n) {
  Chosen chosen;
  for (nn::FactorOpInterface op : ops) {
    auto linear = linearOf(op);
    if (linear && grid.applies(op, {}) && (!linear->lookup || isLargeLookup(op, *linear, n)))
      chosen.insert({op, grid.name()});
  }
  return chosen;
}

// The factors of n nearest to its k-th root each, in falling order.
static SmallVector<int64_t> nearRoots(int64_t n, int k) {
  if (k == 1)
    return {n};
  int64_t best = n;
  for (int64_t d = 1; d <= n; ++d)
    if (n % d == 0 && std::pow(double(d), k) >= double(n) * (1 - 1e-9)) {
      best = d;
      break;
    }
  SmallVector<int64_t> list = {best};
  list.append(nearRoots(n / best, k - 1));
  return list;
}

// The attentions of the program, forward.
static SmallVector<nn::FactorOpInterface> attentions(ArrayRef<nn::FactorOpInterface> ops) {
  SmallVector<nn::FactorOpInterface> list;
  for (nn::FactorOpInterface op : ops)
    if (attentionOf(op))
      list.push_back(op);
  return list;
}

// --sp: the inputs whose second dimension is what attention's queries run along, and the attentions.
static LogicalResult splitSequence(ModuleOp module, ArrayRef<nn::FactorOpInterface> ops,
                                   const NameIndex &index, const AssignOptions &options, Plan &plan) {
  std::map<int64_t, int> lengths;
  auto list = attentions(ops);
  for (nn::FactorOpInterface op : list)
    ++lengths[op.getFactorRule().factors[attentionOf(op)->s].size];
  if (lengths.empty())
    return module.emitError("--sp: no attention, softmax(scale q k + masks) v, is recognised in the model, "
                            "and so there is no sequence to split; --dp splits the batch");
  int64_t length = llvm::max_element(lengths, [](auto &a, auto &b) { return a.second < b.second; })->first;
  if (length < options.sp)
    return module.emitError("--sp: a sequence of ")
           << length << " has no part for each of " << options.sp << " ranks";
  std::set<std::string> names;
  for (auto func : module.getOps<func::FuncOp>())
    for (BlockArgument arg : func.getArguments()) {
      bool isData = nn::isUserData(nn::inputKind(func, arg.getArgNumber()));
      auto name = nn::kName.ofArgument(func, arg.getArgNumber());
      auto type = cast<RankedTensorType>(arg.getType());
      if (name && isData && type.getRank() > 1 && type.getDimSize(1) == length &&
          names.insert(name.str()).second)
        plan.inputs.push_back({name.str(), 1, {"seq"}, {}});
    }
  // Of images the sequence begins inside, with the first value that has it.
  auto hasSequence = [&](nn::FactorOpInterface op) {
    auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
    return op->getNumResults() == 1 && type && type.getRank() > 2 && type.getDimSize(1) == length &&
           !nodeName(op->getLoc()).empty();
  };
  if (auto first = llvm::find_if(ops, hasSequence); names.empty() && first != ops.end()) {
    plan.values.push_back({nodeName((*first)->getLoc()).str(), {{1, {"seq"}}}, {}});
    if (options.dp > 1)
      plan.values.back().split[0] = {"data"};
  }
  for (nn::FactorOpInterface op : list) {
    ArrayRef<StringRef> opNames = index.of(op);
    if (!opNames.empty() && names.insert("@" + opNames.front().str()).second)
      plan.ops.push_back(
          {opNames.front().str(), options.spMode.empty() ? "ring" : options.spMode, {"seq"}, {}});
  }
  return success();
}

// --sp-mode megatron: the residual stream, which the first row product is added to, lives split along the
// sequence; the rest follows.
static LogicalResult splitResidual(ModuleOp module, const Chosen &chosen,
                                   const std::vector<std::string> &batch, Plan &plan) {
  for (auto [op, pattern] : chosen) {
    if (pattern != "row")
      continue;
    Value value = op->getResult(0);
    while (value.hasOneUse() || !value.use_empty()) {
      Operation *user = *value.getUsers().begin();
      for (Operation *other : value.getUsers())
        if (!nn::kGradOf.isOn(other) && !isa<nn::AccOp>(other))
          user = other;
      if (nn::kGradOf.isOn(user) || user->getNumResults() != 1)
        break;
      for (Value stream : user->getOperands()) {
        Operation *origin = stream.getDefiningOp();
        auto type = cast<RankedTensorType>(stream.getType());
        if (stream == value || !origin || readOf(stream) || type != user->getResult(0).getType() ||
            type.getRank() < 3)
          continue;
        std::string name = nodeName(origin->getLoc()).str();
        if (name.empty())
          return origin->emitError(
                     "--sp-mode megatron: the start of the residual stream has no name; lay it down by ")
                 << dist::kSplit.name;
        plan.values.push_back({name, {{1, {"tensor"}}}, {}});
        if (!batch.empty())
          plan.values.back().split[0] = batch;
        return success();
      }
      value = user->getResult(0);
    }
  }
  return module.emitError(
      "--sp-mode megatron: no row product is added to a residual stream of [batch, sequence, width]");
}

// --ep: the products over a dimension of experts, and what stands between them and the tokens.
static LogicalResult splitExperts(ModuleOp module, ArrayRef<nn::FactorOpInterface> ops,
                                  const AssignOptions &options, Chosen &chosen) {
  const tessera::Pattern &expert = *findPattern("expert");
  for (nn::FactorOpInterface op : ops)
    if (expert.applies(op, {})) {
      if (Applies applies = expert.applies(op, {dist::AxisList{{"expert", 1, options.ep}}}); !applies)
        return op.emitError("--ep: ") << applies.why;
      chosen.insert({op, "expert"});
    }
  if (chosen.empty())
    return module.emitError("--ep: the model has no mixture of experts, no product whose weight has a "
                            "dimension of experts; --dp splits its batch and --tp "
                            "its products");
  return success();
}

namespace {

// Adds to a plan what the options ask for, one kind of parallelism after the other.
class Recipe {
public:
  Recipe(ModuleOp module, const AssignOptions &options, Plan &plan)
      : module(module), options(options), plan(plan), index(module) {
    for (auto func : module.getOps<func::FuncOp>())
      for (Operation &op : func.getBody().front())
        if (auto factorOp = dyn_cast<nn::FactorOpInterface>(op); factorOp && !nn::kGradOf.isOn(&op))
          ops.push_back(factorOp);
  }
  LogicalResult run();

private:
  LogicalResult addAxis(StringRef name, int64_t size);
  LogicalResult splitTokens();
  LogicalResult storeInPieces();
  LogicalResult cutIntoStages();
  LogicalResult chooseExperts();
  void splitExpertsOver(StringRef axis, int64_t size);
  LogicalResult addTensorAxes();
  LogicalResult chooseProducts();
  void list(const Chosen &chosen, const std::vector<std::string> &axes);

  ModuleOp module;
  const AssignOptions &options;
  Plan &plan;
  NameIndex index;
  SmallVector<nn::FactorOpInterface> ops;         // forward
  std::vector<std::string> tokenAxes, tensorAxes; // of --dp and --ep; of --tp
  Chosen experts, products;
  std::vector<std::string> expertAxes;
  int64_t expertRanks = 1; // along them
  std::set<std::string> listed;
};

} // namespace

LogicalResult Recipe::addAxis(StringRef name, int64_t size) {
  if (plan.addAxis(name, size))
    return success();
  return module.emitError("mesh axis \"")
         << name << "\" has one size in the plan and size " << size << " by option";
}

// Experts take tokens of their own axis, as data parallelism does.
LogicalResult Recipe::splitTokens() {
  std::vector<std::string> fresh;
  for (auto [name, size] : {std::pair("data", options.dp), {"expert", options.ep}}) {
    if (size <= 1)
      continue;
    if (failed(addAxis(name, size)))
      return failure();
    tokenAxes.push_back(name);
    if (llvm::none_of(plan.inputs, [&](const InputRule &r) { return llvm::is_contained(r.axes, name); }))
      fresh.push_back(name);
  }
  return fresh.empty() ? success() : splitBatch(module, plan, options.dp > 1 ? "--dp" : "--ep", fresh);
}

// What the plan says of ZeRO comes first.
LogicalResult Recipe::storeInPieces() {
  if (options.zero <= 0 || !plan.zero.axes.empty())
    return success();
  std::vector<std::string> axes;
  for (auto &[name, size] : plan.mesh)
    if (name == "data" || name == "expert")
      axes.push_back(name);
  if (axes.empty())
    return module.emitError("--zero=")
           << options.zero
           << " stores training state in pieces over the axis \"data\", which the mesh does not have; add "
           << "--dp N, or [zero] with other axes to the plan";
  plan.zero = {options.zero, axes, {}};
  return success();
}

LogicalResult Recipe::cutIntoStages() {
  if (options.pp > 1) {
    // Stages talk least, so their axis is the slowest varying one. A plan's [pipeline] wins.
    if (!plan.addAxis("pipe", options.pp, /*slowest=*/true))
      return addAxis("pipe", options.pp);
    if (!plan.pipeline) {
      plan.pipeline.emplace();
      plan.pipeline->axis = "pipe";
      if (!options.ppSchedule.empty())
        plan.pipeline->schedule = options.ppSchedule;
    }
  } else if (!options.ppSchedule.empty() && !plan.pipeline) {
    return module.emitError("--pp-schedule ")
           << options.ppSchedule << " needs a pipeline: add --pp N, or a [pipeline] table to the plan";
  }
  return success();
}

// Further axes that do not split the tokens where experts see them, so they come first; where there are
// enough experts.
void Recipe::splitExpertsOver(StringRef axis, int64_t size) {
  dist::AxisList all = {{"expert", 1, expertRanks * size}};
  if (size <= 1 || !llvm::all_of(experts, [&](auto &each) {
        return bool(findPattern(each.second)->applies(cast<nn::FactorOpInterface>(each.first), {all}));
      }))
    return;
  expertAxes.insert(expertAxes.begin(), axis.str());
  expertRanks *= size;
}

LogicalResult Recipe::chooseExperts() {
  // With a capacity the rows of an expert are not split as the sequence is: each of its ranks has some of the
  // experts instead.
  bool hasPlaces = llvm::any_of(ops, [](Operation *op) {
    auto routing = dyn_cast<nn::RoutingOpInterface>(op);
    return routing && routing.getCapacity();
  });
  bool splitsPlaces = options.sp > 1 && hasPlaces;
  if ((options.ep > 1 || splitsPlaces) && failed(splitExperts(module, ops, options, experts)))
    return failure();
  if (options.ep > 1) {
    expertAxes = {"expert"};
    expertRanks = options.ep;
  }
  if (splitsPlaces)
    splitExpertsOver("seq", options.sp);
  if (expertAxes.empty())
    experts.clear();
  return success();
}

LogicalResult Recipe::addTensorAxes() {
  std::vector<std::pair<std::string, int64_t>> axes = {{"tensor", options.tp}};
  if (options.tpMode == "2d") {
    auto sizes = nearRoots(options.tp, 2);
    axes = {{"row", sizes[1]}, {"col", sizes[0]}};
  } else if (options.tpMode == "2.5d") {
    // As near to a cube as there is, unless told.
    int64_t depth = options.tpDepth ? options.tpDepth : nearRoots(options.tp, 3)[2];
    auto sizes = nearRoots(options.tp / depth, 2);
    axes = {{"row", sizes[1]}, {"col", sizes[0]}, {"depth", depth}};
  } else if (options.tpMode == "3d") {
    auto sizes = nearRoots(options.tp, 3);
    axes = {{"i", sizes[2]}, {"j", sizes[1]}, {"k", sizes[0]}};
  }
  for (auto &[name, size] : axes) {
    if (failed(addAxis(name, size)))
      return failure();
    tensorAxes.push_back(name);
  }
  return success();
}

LogicalResult Recipe::chooseProducts() {
  if (failed(addTensorAxes()))
    return failure();
  products = options.tpMode == "1d" ? pairProducts(ops, options.tp)
                                    : layOverGrid(ops, *findPattern(options.tpMode), options.tp);
  if (products.empty())
    return module.emitError(
        options.tpMode == "1d"
            ? "--tp: the model has no pair of products to split as column and row, and no vocabulary"
            : "--tp: the model has no product with a parameter");
  if (options.spMode == "megatron" && failed(splitResidual(module, products, tokenAxes, plan)))
    return failure();
  for (auto [op, pattern] : experts)
    products.erase(op);
  if (options.ep > 1 && tensorAxes.size() == 1)
    splitExpertsOver(tensorAxes.front(), options.tp);
  return success();
}

// Writes what was chosen into the plan, over `axes`.
void Recipe::list(const Chosen &chosen, const std::vector<std::string> &axes) {
  for (auto [op, pattern] : chosen) {
    std::string match = nameForEntry(cast<nn::FactorOpInterface>(op), index);
    // An attention without a name, in hand-written text, follows its products by itself.
    if (!match.empty() && listed.insert(match + "|" + pattern.str()).second)
      plan.ops.push_back({match, pattern.str(), axes, {}});
  }
}

LogicalResult Recipe::run() {
  size_t first = plan.ops.size();
  if (failed(splitTokens()))
    return failure();
  if (options.sp > 1 &&
      (failed(addAxis("seq", options.sp)) || failed(splitSequence(module, ops, index, options, plan))))
    return failure();
  if (failed(storeInPieces()) || failed(cutIntoStages()) || failed(chooseExperts()))
    return failure();
  if (options.tp > 1 && failed(chooseProducts()))
    return failure();
  list(experts, expertAxes);
  list(products, tensorAxes);
  listByRole(module, index, plan.ops, first);
  return success();
}

LogicalResult tessera::applyRecipe(ModuleOp module, const AssignOptions &options, Plan &plan) {
  return Recipe(module, options, plan).run();
}
