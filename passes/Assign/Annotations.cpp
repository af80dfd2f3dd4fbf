// Annotated nodes become entries of a plan: a pattern where one implies exactly their splits, else a layout of the node's value.
#include "passes/Assign/Annotations.h"
#include "dialects/dist/Dist.h"
#include "lib/Support/Location.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Assign/Pattern.h"
#include "passes/Assign/Plan.h"
#include "llvm/ADT/StringExtras.h"
#include <set>

using namespace mlir;
using namespace tessera;

namespace {

using Names = std::vector<std::string>;
using Splits = std::map<int, Names>; // factor to axes

struct AnnotatedTensor {
  StringRef kind, name;
  int64_t position;
  ArrayRef<int64_t> shape;
  std::vector<Names> split; // of each dimension

  explicit AnnotatedTensor(DictionaryAttr attr)
      : kind(attr.getAs<StringAttr>("kind").getValue()), name(attr.getAs<StringAttr>("name").getValue()),
        position(attr.getAs<IntegerAttr>("position").getInt()), shape(attr.getAs<DenseI64ArrayAttr>("shape").asArrayRef()) {
    for (auto dim : attr.getAs<ArrayAttr>("split").getAsRange<ArrayAttr>()) {
      split.emplace_back();
      for (auto axis : dim.getAsRange<StringAttr>())
        split.back().push_back(axis.str());
    }
  }
};

// The attributes are text in .mlir files, which may say anything.
template <typename T> bool areAll(Attribute attr, llvm::function_ref<bool(T)> valid) {
  auto array = dyn_cast_or_null<ArrayAttr>(attr);
  return array && llvm::all_of(array, [&](Attribute each) {
    auto typed = dyn_cast<T>(each);
    return typed && valid(typed);
  });
}
bool isNames(ArrayAttr names) {
  return llvm::all_of(names, [](Attribute name) { return isa<StringAttr>(name); });
}
bool isTensor(DictionaryAttr tensor) {
  auto shape = tensor.getAs<DenseI64ArrayAttr>("shape");
  auto split = tensor.getAs<ArrayAttr>("split");
  return tensor.getAs<StringAttr>("kind") && tensor.getAs<StringAttr>("name") && tensor.getAs<IntegerAttr>("position") && shape && split &&
         int64_t(split.size()) == shape.size() && areAll<ArrayAttr>(split, isNames);
}
bool isNode(DictionaryAttr node) {
  return node.getAs<StringAttr>("node") && node.getAs<StringAttr>("op") && areAll<DictionaryAttr>(node.get("tensors"), isTensor);
}
bool isAxis(ArrayAttr axis) { return axis.size() == 2 && isa<StringAttr>(axis[0]) && isa<IntegerAttr>(axis[1]); }

// Where a tensor of an annotated node is in the program: an operand of its operator, or (-1) the result; and for each of its
// dimensions that of the value which begins with it.
struct Place {
  const AnnotatedTensor *tensor;
  int operand;
  SmallVector<int> dims;
};

} // namespace

// The dimension of `to` that dimension d of `from`, the same elements in another shape, begins in; -1 for an extent of 1.
static SmallVector<int> regrouped(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  SmallVector<int> result(from.size(), -1);
  if (from == to) {
    for (size_t d = 0; d < from.size(); ++d)
      result[d] = d;
    return result;
  }
  int64_t low = 1;
  for (int d = from.size() - 1; d >= 0; --d) {
    int64_t high = low * from[d], toLow = 1;
    for (int k = to.size() - 1; k >= 0; --k) {
      int64_t toHigh = toLow * to[k];
      if (from[d] > 1 && toLow < high && high <= toHigh)
        result[d] = k;
      toLow = toHigh;
    }
    low = high;
  }
  return result;
}

static ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }

// For each dimension of a variable the one of `value`, which is made of it by moving elements about.
static SmallVector<int> dimsOfVariable(Value value) {
  SmallVector<Operation *> chain;
  Operation *read = readOf(value);
  for (Operation *op = value.getDefiningOp(); op != read; op = op->getOperand(0).getDefiningOp())
    chain.push_back(op);
  SmallVector<int> dims;
  for (size_t d = 0; d < shapeOf(read->getResult(0)).size(); ++d)
    dims.push_back(d);
  for (Operation *op : llvm::reverse(chain)) {
    nn::FactorRule rule = cast<nn::FactorOpInterface>(op).getFactorRule();
    SmallVector<int> next = regrouped(shapeOf(op->getOperand(0)), shapeOf(op->getResult(0)));
    for (int &dim : dims) {
      if (dim < 0)
        continue;
      if (rule.isReshape) {
        dim = next[dim];
        continue;
      }
      int factor = rule.operands[0][dim];
      auto found = llvm::find(rule.results[0], factor);
      dim = factor < 0 || found == rule.results[0].end() ? -1 : found - rule.results[0].begin();
    }
  }
  return dims;
}

static int64_t elements(ArrayRef<int64_t> shape) { return ShapedType::getNumElements(shape); }

// The tensors that are operands or the result of `op`.
static SmallVector<Place> placesIn(nn::FactorOpInterface op, ArrayRef<AnnotatedTensor> tensors) {
  SmallVector<Place> places;
  SmallVector<unsigned> data;
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    if (Operation *by = operand.getDefiningOp(); isa<RankedTensorType>(operand.getType()) && !readOf(operand) && (!by || by->getNumOperands() > 0))
      data.push_back(i);
  for (const AnnotatedTensor &tensor : tensors) {
    if (tensor.kind == "output") {
      if (tensor.position == 0 && op->getNumResults() == 1 && elements(shapeOf(op->getResult(0))) == elements(tensor.shape))
        places.push_back({&tensor, -1, regrouped(tensor.shape, shapeOf(op->getResult(0)))});
      continue;
    }
    if (tensor.kind == "parameter") {
      for (auto [i, operand] : llvm::enumerate(op->getOperands()))
        if (auto read = dyn_cast_or_null<nn::ReadOp>(readOf(operand)); read && read.getVariable() == tensor.name)
          places.push_back({&tensor, int(i), dimsOfVariable(operand)});
      continue;
    }
    size_t position = data.size() == 1 ? 0 : tensor.position;
    if (position < data.size() && elements(shapeOf(op->getOperand(data[position]))) == elements(tensor.shape))
      places.push_back({&tensor, int(data[position]), regrouped(tensor.shape, shapeOf(op->getOperand(data[position])))});
  }
  return places;
}

static Splits splitsOf(const Place &place, const nn::FactorRule &rule) {
  Splits splits;
  const nn::DimFactors &factors = place.operand < 0 ? rule.results[0] : rule.operands[place.operand];
  for (auto [d, dim] : llvm::enumerate(place.dims))
    if (dim >= 0 && !place.tensor->split[d].empty() && factors[dim] >= 0)
      llvm::append_range(splits[factors[dim]], place.tensor->split[d]);
  return splits;
}

// As names of whole axes; nothing where a part of one is split.
static std::optional<Splits> named(const FactorSplits &from, const dist::Mesh &mesh) {
  Splits splits;
  for (const FactorSplit &split : from)
    for (const dist::AxisRef &axis : split.axes) {
      if (axis.pre != 1 || axis.size != mesh.sizeOf(axis.name))
        return std::nullopt;
      splits[split.factor].push_back(axis.name);
    }
  return splits;
}

static Splits restricted(const Splits &splits, const nn::DimFactors &factors) {
  Splits result;
  for (auto &[factor, axes] : splits)
    if (llvm::is_contained(factors, factor))
      result[factor] = axes;
  return result;
}

namespace {

// Finds what makes one operator lie as its node is annotated.
class Follower {
public:
  Follower(nn::FactorOpInterface op, ArrayRef<Place> places, const dist::Mesh &mesh)
      : op(op), rule(op.getFactorRule()), places(places), mesh(mesh) {
    std::set<std::string> used;
    for (const Place &place : places) {
      specs.push_back(splitsOf(place, rule));
      for (auto &[factor, names] : specs.back())
        used.insert(names.begin(), names.end());
      if (place.operand >= 0 && place.tensor->kind != "parameter")
        for (auto &[factor, names] : specs.back())
          ofData[factor] = names;
    }
    axes.assign(used.begin(), used.end());
  }

  // The pattern that implies the annotated splits, and whether it implies that of the result too.
  struct Match {
    const tessera::Pattern *pattern = nullptr;
    Names axes;
    bool placesResult = false;
    size_t score = 0;
  };
  Match match() const {
    Match best;
    for (const tessera::Pattern *pattern : allPatterns()) {
      Names order = axes;
      size_t n = pattern->axes().size();
      if (n > order.size())
        continue;
      std::set<Names> tried;
      do {
        Names chosen(order.begin(), order.begin() + n);
        if (!tried.insert(chosen).second)
          continue;
        Match found = judge(pattern, chosen);
        if (found.score > best.score)
          best = found;
      } while (std::next_permutation(order.begin(), order.end()));
    }
    return best;
  }

  // What the annotations split, loop by loop. Reports contradictions.
  FailureOr<Splits> merged(StringRef node, StringRef opType) const {
    Splits all;
    std::map<int, StringRef> by;
    for (auto [place, spec] : llvm::zip(places, specs)) {
      if (place.operand < 0)
        continue;
      for (auto &[factor, names] : spec) {
        auto [known, isNew] = all.try_emplace(factor, names);
        if (!isNew && known->second != names)
          return contradiction(node, opType) << "'" << by[factor] << "' and '" << place.tensor->name
                                             << "' split dimensions that run alike over different devices; shard them alike, or leave one out";
        by[factor] = place.tensor->name;
      }
    }
    std::map<std::string, int> user;
    for (auto &[factor, names] : all)
      for (const std::string &axis : names)
        if (auto [other, isNew] = user.try_emplace(axis, factor); !isNew && other->second != factor)
          return contradiction(node, opType) << "'" << by[other->second] << "' and '" << by[factor]
                                             << "' split two dimensions that combine with each other over the same devices; shard one of them otherwise, or "
                                                "leave it out";
    return all;
  }

private:
  InFlightDiagnostic contradiction(StringRef node, StringRef opType) const {
    return emitError(UnknownLoc::get(op->getContext())) << "node '" << node << "' (" << opType << "): its annotations contradict each other: ";
  }

  struct AnnotatedHomes : Surroundings {
    AnnotatedHomes(const Follower &self) : self(self) {}
    dist::AxisList home(unsigned operand, int factor) const override {
      dist::AxisList list;
      for (auto [place, spec] : llvm::zip(self.places, self.specs))
        if (place.operand == int(operand) && spec.count(factor))
          for (const std::string &axis : spec.at(factor))
            list.push_back({axis, 1, *self.mesh.sizeOf(axis)});
      return list;
    }
    const Follower &self;
  };

  Match judge(const tessera::Pattern *pattern, const Names &chosen) const {
    SmallVector<dist::AxisList> lists;
    for (const std::string &axis : chosen)
      lists.push_back({{axis, 1, *mesh.sizeOf(axis)}});
    if (!pattern->applies(op, lists))
      return {};
    Choice choice = pattern->choose(op, lists, AnnotatedHomes(*this));
    auto compute = named(choice.compute, mesh);
    if (!compute || compute->empty())
      return {};
    Match match{pattern, chosen, true, 2 * compute->size()};
    std::set<int> seen;
    for (auto [place, spec] : llvm::zip(places, specs)) {
      if (place.operand < 0) {
        auto home = choice.homes.count(0) ? named(choice.homes.at(0), mesh) : compute;
        Splits expected = ofData;
        for (auto &[factor, names] : home ? *home : Splits())
          expected[factor] = names;
        match.placesResult = restricted(expected, rule.results[0]) == spec;
      } else if (place.tensor->kind == "parameter") {
        auto stored = choice.storage.count(place.operand) ? named(choice.storage.at(place.operand), mesh) : compute;
        if (!stored || restricted(*stored, rule.operands[place.operand]) != spec)
          return {};
      } else if (choice.storage.empty() && !choice.stream) {
        for (auto &[factor, names] : spec) {
          for (auto &[other, taken] : *compute)
            if (other != factor && llvm::any_of(names, [&](const std::string &axis) { return llvm::is_contained(taken, axis); }))
              return {};
          if (compute->count(factor) ? compute->at(factor) != names
                                     : rule.factors[factor].kind != nn::FactorKind::PassThrough || !rule.resultHas(0, factor))
            return {};
        }
      }
      for (auto &[factor, names] : spec)
        seen.insert(factor);
    }
    for (auto &[factor, names] : *compute)
      if (!seen.count(factor))
        return {};
    match.score += match.placesResult;
    return match;
  }

  nn::FactorOpInterface op;
  nn::FactorRule rule;
  ArrayRef<Place> places;
  const dist::Mesh &mesh;
  std::vector<Splits> specs;
  Splits ofData;
  Names axes;
};

// Collects the plan of all annotated nodes.
class AnnotationReader {
public:
  explicit AnnotationReader(ModuleOp module) : module(module) {
    plan.origin = "annotation";
    SmallVector<dist::AxisRef> axes;
    for (auto axis : module->getAttrOfType<ArrayAttr>(kAnnotatedMeshAttr).getAsRange<ArrayAttr>()) {
      plan.mesh.push_back({cast<StringAttr>(axis[0]).str(), cast<IntegerAttr>(axis[1]).getInt()});
      axes.push_back({plan.mesh.back().first, 1, plan.mesh.back().second});
    }
    mesh = dist::Mesh(axes);
    for (auto f : module.getOps<func::FuncOp>())
      if (!func || f.getName() == "infer")
        func = f;
  }

  FailureOr<Plan> run() {
    for (auto entry : module->getAttrOfType<ArrayAttr>(kAnnotationsAttr).getAsRange<DictionaryAttr>())
      if (failed(follow(entry)))
        return failure();
    splitLabels();
    return plan;
  }

private:
  LogicalResult follow(DictionaryAttr entry) {
    StringRef node = entry.getAs<StringAttr>("node").getValue(), opType = entry.getAs<StringAttr>("op").getValue();
    SmallVector<AnnotatedTensor> tensors;
    for (auto tensor : entry.getAs<ArrayAttr>("tensors").getAsRange<DictionaryAttr>())
      tensors.emplace_back(tensor);
    bool splits = false;
    for (const AnnotatedTensor &tensor : tensors) {
      splits |= llvm::any_of(tensor.split, [](const Names &axes) { return !axes.empty(); });
      if (tensor.kind == "input" && failed(splitInput(node, opType, tensor)))
        return failure();
    }
    SmallVector<nn::FactorOpInterface> ops;
    for (Operation &op : func.getBody().front())
      if (auto factorOp = dyn_cast<nn::FactorOpInterface>(op); factorOp && op.getNumOperands() > 0 && nodeName(op.getLoc()) == node)
        ops.push_back(factorOp);
    if (ops.empty()) {
      if (splits)
        emitWarning(UnknownLoc::get(module.getContext())) << "node '" << node << "' (" << opType
                                     << "): its annotation is not followed: the node went into an operator of other nodes, or is not needed";
      return success();
    }
    // The operator that most of the tensors are operands of.
    nn::FactorOpInterface best;
    SmallVector<Place> places;
    auto operands = [](ArrayRef<Place> list) { return llvm::count_if(list, [](const Place &p) { return p.operand >= 0; }); };
    for (nn::FactorOpInterface op : ops) {
      if (op.getFactorRule().isReshape || op->getNumResults() != 1)
        continue;
      SmallVector<Place> list = placesIn(op, tensors);
      if (!best || operands(list) > operands(places)) {
        best = op;
        places = list;
      }
    }
    const AnnotatedTensor *output = nullptr;
    for (const AnnotatedTensor &tensor : tensors)
      if (tensor.kind == "output" && tensor.position == 0)
        output = &tensor;
    Value result = ops.back()->getResult(0);
    bool placed = false;
    if (best) {
      Follower follower(best, places, mesh);
      Follower::Match match = follower.match();
      if (match.pattern) {
        plan.ops.push_back({node.str(), match.pattern->name().str(), match.axes, {}});
        if (match.placesResult || !output)
          return success();
      } else {
        FailureOr<Splits> merged = follower.merged(node, opType);
        if (failed(merged))
          return failure();
        if (!output && !merged->empty()) {
          ValueRule rule{node.str(), {}, {}};
          nn::FactorRule result = best.getFactorRule();
          for (auto [d, factor] : llvm::enumerate(result.results[0]))
            if (merged->count(factor))
              rule.split[d] = merged->at(factor);
          plan.values.push_back(rule);
          return success();
        }
      }
      placed = match.pattern;
    }
    if (output && elements(shapeOf(result)) == elements(output->shape)) {
      ValueRule rule{node.str(), {}, {}};
      SmallVector<int> dims = regrouped(output->shape, shapeOf(result));
      for (auto [d, axes] : llvm::enumerate(output->split))
        if (dims[d] >= 0)
          llvm::append_range(rule.split[dims[d]], axes);
      std::erase_if(rule.split, [](auto &entry) { return entry.second.empty(); });
      plan.values.push_back(rule);
      placed = true;
    }
    if (splits && !placed && llvm::none_of(tensors, [](auto &t) { return t.kind == "input"; }))
      emitWarning(UnknownLoc::get(module.getContext())) << "node '" << node << "' (" << opType
                                   << "): its annotation is not followed: the tensors that it shards have another form in the program";
    return success();
  }

  // A graph input is where its first annotation says.
  LogicalResult splitInput(StringRef node, StringRef opType, const AnnotatedTensor &tensor) {
    auto [known, isNew] = inputs.try_emplace(tensor.name.str(), node.str(), tensor.split);
    if (!isNew) {
      if (known->second.second != tensor.split)
        return emitError(UnknownLoc::get(module.getContext()))
               << "node '" << node << "' (" << opType << "): its annotation contradicts that of node '" << known->second.first << "': both shard the graph input '"
               << tensor.name << "', in different ways; an input has one layout";
      return success();
    }
    for (auto [d, axes] : llvm::enumerate(tensor.split))
      if (!axes.empty())
        plan.inputs.push_back({tensor.name.str(), int64_t(d), axes, {}});
    return success();
  }

  // What training adds is split along with the first input of the same extents.
  void splitLabels() {
    std::set<std::string> done;
    for (auto f : module.getOps<func::FuncOp>())
      for (BlockArgument arg : f.getArguments()) {
        auto kind = f.getArgAttrOfType<StringAttr>(arg.getArgNumber(), "nn.kind");
        auto name = f.getArgAttrOfType<StringAttr>(arg.getArgNumber(), "nn.name");
        if (!kind || !name || (kind.getValue() != "labels" && kind.getValue() != "target") || !done.insert(name.str()).second)
          continue;
        std::vector<InputRule> rules = plan.inputs;
        std::set<int64_t> dims;
        for (const InputRule &rule : rules)
          if (rule.dim < int64_t(shapeOf(arg).size()) && extentOf(rule) == shapeOf(arg)[rule.dim] && dims.insert(rule.dim).second)
            plan.inputs.push_back({name.str(), rule.dim, rule.axes, {}});
      }
  }

  int64_t extentOf(const InputRule &rule) {
    for (BlockArgument arg : func.getArguments())
      if (auto name = func.getArgAttrOfType<StringAttr>(arg.getArgNumber(), "nn.name"); name && name.getValue() == rule.match)
        return shapeOf(arg)[rule.dim];
    return 0;
  }

  ModuleOp module;
  func::FuncOp func;
  dist::Mesh mesh;
  Plan plan;
  std::map<std::string, std::pair<std::string, std::vector<Names>>> inputs;
};

} // namespace

bool tessera::carriesPlan(ModuleOp module) { return module->hasAttr(kFilePlanAttr) || module->hasAttr(kAnnotationsAttr); }

void tessera::dropCarriedPlan(ModuleOp module) {
  for (StringRef attr : {kFilePlanAttr, kAnnotationsAttr, kAnnotatedMeshAttr})
    module->removeAttr(attr);
}

FailureOr<std::optional<Plan>> tessera::planOfFile(ModuleOp module) {
  if (auto text = module->getAttrOfType<StringAttr>(kFilePlanAttr)) {
    std::string errors;
    llvm::raw_string_ostream os(errors);
    FailureOr<Plan> plan = Plan::parse(text.getValue(), "tessera.plan of the model", os);
    if (failed(plan))
      return emitError(UnknownLoc::get(module.getContext())) << StringRef(errors).rtrim(), failure();
    return std::optional(*plan);
  }
  if (!module->hasAttr(kAnnotationsAttr))
    return std::optional<Plan>();
  if (!areAll<ArrayAttr>(module->getAttr(kAnnotatedMeshAttr), isAxis) || !areAll<DictionaryAttr>(module->getAttr(kAnnotationsAttr), isNode))
    return module.emitError() << kAnnotationsAttr << " and " << kAnnotatedMeshAttr << " are not of the form that the importer writes";
  FailureOr<Plan> plan = AnnotationReader(module).run();
  if (failed(plan))
    return failure();
  return std::optional(*plan);
}
