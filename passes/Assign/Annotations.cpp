// Annotated nodes become entries of a plan: a pattern where one implies exactly their splits, else a layout
// of the node's value.
#include "passes/Assign/Annotations.h"
#include "dialects/dist/Attributes.h"
#include "dialects/nn/Attributes.h"
#include "lib/Support/Location.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Assign/AnnotatedOp.h"
#include "passes/Assign/Pattern.h"
#include "passes/Assign/Plan.h"
#include <set>

using namespace mlir;
using namespace tessera;

static ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }
static int64_t elements(Value value) { return ShapedType::getNumElements(shapeOf(value)); }

namespace {

// Collects the plan of all annotated nodes.
class AnnotationReader {
public:
  explicit AnnotationReader(ModuleOp module) : module(module) {
    plan.origin = "annotation";
    SmallVector<dist::AxisRef> axes;
    for (auto axis : dist::kAnnotatedMesh.of(module).getAsRange<ArrayAttr>()) {
      plan.mesh.push_back({cast<StringAttr>(axis[0]).str(), cast<IntegerAttr>(axis[1]).getInt()});
      axes.push_back({plan.mesh.back().first, 1, plan.mesh.back().second});
    }
    mesh = dist::Mesh(axes);
    func = nn::inferenceProgram(module);
    if (!func)
      return;
    for (Operation &op : func.getFunctionBody().front())
      if (auto factorOp = dyn_cast<nn::FactorOpInterface>(op); factorOp && op.getNumOperands() > 0)
        opsOfNode[nodeName(op.getLoc())].push_back(factorOp);
  }

  FailureOr<Plan> run() {
    for (auto entry : dist::kAnnotations.of(module).getAsRange<DictionaryAttr>())
      if (failed(follow(entry)))
        return failure();
    splitLabels();
    return plan;
  }

private:
  LogicalResult follow(DictionaryAttr entry) {
    StringRef node = entry.getAs<StringAttr>("node").getValue(),
              opType = entry.getAs<StringAttr>("op").getValue();
    SmallVector<AnnotatedTensor> tensors;
    for (auto tensor : entry.getAs<ArrayAttr>("tensors").getAsRange<DictionaryAttr>())
      tensors.emplace_back(tensor);
    bool splits = false;
    size_t opsBefore = plan.ops.size();
    for (const AnnotatedTensor &tensor : tensors) {
      splits |= llvm::any_of(tensor.split, [](const AxisNames &axes) { return !axes.empty(); });
      if (tensor.kind == "input" && failed(splitInput(node, opType, tensor)))
        return failure();
    }
    SmallVector<nn::FactorOpInterface> ops = opsOfNode.lookup(node);
    if (ops.empty()) {
      if (splits)
        emitWarning(UnknownLoc::get(module.getContext()))
            << "node '" << node << "' (" << opType
            << "): its annotation is not followed: the node went into an operator of other nodes, or is not "
               "needed";
      return success();
    }
    const AnnotatedTensor *output = nullptr;
    for (const AnnotatedTensor &tensor : tensors)
      if (tensor.kind == "output" && tensor.position == 0)
        output = &tensor;
    FailureOr<bool> placed = placeOperator(ops, tensors, node, opType, output);
    if (failed(placed) || *placed)
      return placed;
    Value result = ops.back()->getResult(0);
    if (output && elements(result) == ShapedType::getNumElements(output->shape)) {
      ValueRule rule{node.str(), {}, {}};
      SmallVector<int> dims = regroupedDims(output->shape, shapeOf(result));
      for (auto [d, axes] : llvm::enumerate(output->split))
        if (dims[d] >= 0)
          llvm::append_range(rule.split[dims[d]], axes);
      std::erase_if(rule.split, [](auto &entry) { return entry.second.empty(); });
      plan.values.push_back(rule);
      return success();
    }
    if (splits && plan.ops.size() == opsBefore &&
        llvm::none_of(tensors, [](auto &t) { return t.kind == "input"; }))
      emitWarning(UnknownLoc::get(module.getContext()))
          << "node '" << node << "' (" << opType
          << "): its annotation is not followed: the tensors that it shards have another form in the program";
    return success();
  }

  // Adds what the annotations of its operands mean for the operator that most of them are operands of.
  // Whether that places the output as well.
  FailureOr<bool> placeOperator(ArrayRef<nn::FactorOpInterface> ops, ArrayRef<AnnotatedTensor> tensors,
                                StringRef node, StringRef opType, const AnnotatedTensor *output) {
    nn::FactorOpInterface best;
    SmallVector<AnnotatedPlace> places;
    auto operands = [](ArrayRef<AnnotatedPlace> list) {
      return llvm::count_if(list, [](const AnnotatedPlace &p) { return p.operand >= 0; });
    };
    for (nn::FactorOpInterface op : ops) {
      if (op.getFactorRule().isReshape || op->getNumResults() != 1)
        continue;
      SmallVector<AnnotatedPlace> list = placesIn(op, tensors);
      if (!best || operands(list) > operands(places)) {
        best = op;
        places = list;
      }
    }
    if (!best)
      return false;
    AnnotatedOp annotated(best, places, mesh);
    AnnotatedOp::Match match = annotated.match();
    if (match.pattern) {
      plan.ops.push_back({node.str(), match.pattern->name().str(), match.axes, {}});
      return match.placesResult || !output;
    }
    FailureOr<AnnotatedSplits> merged = annotated.merged(node, opType);
    if (failed(merged))
      return failure();
    if (output || merged->empty())
      return false;
    ValueRule rule{node.str(), {}, {}};
    nn::FactorRule factors = best.getFactorRule();
    for (auto [d, factor] : llvm::enumerate(factors.results[0]))
      if (merged->count(factor))
        rule.split[d] = merged->at(factor);
    plan.values.push_back(rule);
    return true;
  }

  // A graph input is where its first annotation says.
  LogicalResult splitInput(StringRef node, StringRef opType, const AnnotatedTensor &tensor) {
    auto [known, isNew] = inputs.try_emplace(tensor.name.str(), node.str(), tensor.split);
    if (!isNew) {
      if (known->second.second != tensor.split)
        return emitError(UnknownLoc::get(module.getContext()))
               << "node '" << node << "' (" << opType << "): its annotation contradicts that of node '"
               << known->second.first << "': both shard the graph input '" << tensor.name
               << "', in different ways; an input has one layout";
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
        nn::InputKind kind = nn::inputKind(f, arg.getArgNumber());
        auto name = nn::kName.ofArgument(f, arg.getArgNumber());
        if (!name || (kind != nn::InputKind::Labels && kind != nn::InputKind::Target) ||
            !done.insert(name.str()).second)
          continue;
        std::vector<InputRule> rules = plan.inputs;
        std::set<int64_t> dims;
        for (const InputRule &rule : rules)
          if (rule.dim < int64_t(shapeOf(arg).size()) && extentOf(rule) == shapeOf(arg)[rule.dim] &&
              dims.insert(rule.dim).second)
            plan.inputs.push_back({name.str(), rule.dim, rule.axes, {}});
      }
  }

  int64_t extentOf(const InputRule &rule) {
    for (BlockArgument arg : func.getArguments())
      if (auto name = nn::kName.ofArgument(func, arg.getArgNumber()); name && name.getValue() == rule.match)
        return shapeOf(arg)[rule.dim];
    return 0;
  }

  ModuleOp module;
  FunctionOpInterface func;
  dist::Mesh mesh;
  Plan plan;
  llvm::StringMap<SmallVector<nn::FactorOpInterface>> opsOfNode;
  std::map<std::string, std::pair<std::string, std::vector<AxisNames>>> inputs;
};

} // namespace

bool tessera::carriesPlan(ModuleOp module) {
  return dist::kFilePlan.isOn(module) || dist::kAnnotations.isOn(module);
}

void tessera::dropCarriedPlan(ModuleOp module) {
  dist::kFilePlan.remove(module);
  dist::kAnnotations.remove(module);
  dist::kAnnotatedMesh.remove(module);
}

FailureOr<std::optional<Plan>> tessera::planOfFile(ModuleOp module) {
  if (auto text = dist::kFilePlan.of(module)) {
    std::string errors;
    llvm::raw_string_ostream os(errors);
    FailureOr<Plan> plan = Plan::parse(text.getValue(), "tessera.plan of the model", os);
    if (failed(plan))
      return emitError(UnknownLoc::get(module.getContext())) << StringRef(errors).rtrim(), failure();
    return std::optional(*plan);
  }
  if (!dist::kAnnotations.isOn(module))
    return std::optional<Plan>();
  if (!isAnnotatedMesh(dist::kAnnotatedMesh.of(module)) || !areAnnotatedNodes(dist::kAnnotations.of(module)))
    return module.emitError() << dist::kAnnotations.name << " and " << dist::kAnnotatedMesh.name
                              << " are not of the form that the importer writes";
  FailureOr<Plan> plan = AnnotationReader(module).run();
  if (failed(plan))
    return failure();
  return std::optional(*plan);
}
