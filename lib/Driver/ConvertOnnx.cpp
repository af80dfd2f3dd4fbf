// `tessera convert --format onnx`: layouts become multi-device annotations.
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pipeline.h"
#include "dialects/nn/Attributes.h"
#include "lib/Driver/Commands.h"
#include "lib/Driver/Compile.h"
#include "lib/Driver/Report.h"
#include "lib/Export/WriteOnnx.h"
#include "lib/Export/WriteWeights.h"
#include "lib/Import/ImportError.h"
#include "lib/Support/Location.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Assign/Pattern.h"
#include "passes/Assign/Plan.h"
#include "passes/Normalize/Passes.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace tessera;

static constexpr StringLiteral kConfiguration = "tessera";

namespace {

// Describes where the tensors of the nodes that have a pattern, a layout or a split graph input are.
class Annotator {
public:
  explicit Annotator(ModuleOp module)
      : module(module), mesh((*module.getOps<dist::MeshOp>().begin()).getMesh().getMesh()) {
    func = nn::inferenceProgram(module);
    pipeline = dist::Pipeline::of(module);
    for (auto f : module.getOps<func::FuncOp>())
      for (Operation &op : f.getBody().front())
        if (auto part = dist::PipelinePart::of(&op);
            pipeline && part && part->work == dist::PipelineWork::Forward)
          stageOf.try_emplace(nodeName(op.getLoc()), pipeline->stages[part->chunk]);
    for (Operation &op : func.getFunctionBody().front())
      if (isa<nn::FactorOpInterface>(op) && op.getNumOperands() > 0)
        opsOf[nodeName(op.getLoc())].push_back(&op);
    for (BlockArgument arg : func.getArguments())
      if (auto name = nn::kName.ofArgument(func, arg.getArgNumber()))
        arguments[name.getValue()] = arg;
  }

  OnnxAdditions annotate(ArrayRef<NodeTensors> nodes) {
    OnnxAdditions additions;
    additions.configuration = {kConfiguration.str(), mesh.numRanks()};
    for (const NodeTensors &node : nodes)
      if (NodeSharding sharding = describe(node); !sharding.specs.empty() || sharding.stage)
        additions.nodes[node.node] = sharding;
    return additions;
  }

private:
  NodeSharding describe(const NodeTensors &node) {
    NodeSharding sharding;
    sharding.configuration = kConfiguration.str();
    if (auto stage = stageOf.find(node.node); stage != stageOf.end())
      sharding.stage = stage->second;
    ArrayRef<Operation *> ops = opsOf[node.node];
    if (node.node.empty() || ops.empty())
      return sharding;
    bool chosen =
        llvm::any_of(ops, [](Operation *op) { return dist::kPattern.isOn(op) || dist::kSplit.isOn(op); });
    // The value behind moves, and whether another node computes it.
    auto origin = [](Value value) {
      while (auto move = value.getDefiningOp<dist::ReshardOp>())
        value = move.getSource();
      return value;
    };
    llvm::MapVector<Value, Value> data; // what the node computes with, and as it reads it first
    for (Operation *op : ops)
      for (Value operand : op->getOperands()) {
        Value from = origin(operand);
        Operation *by = from.getDefiningOp();
        bool own =
            by && (llvm::is_contained(ops, by) || by->getNumOperands() == 0); // constants have no place
        if (!own && isa<RankedTensorType>(operand.getType()) && !variableOf(operand))
          data.insert({from, operand});
      }
    std::vector<const NodeTensor *> values;
    for (const NodeTensor &input : node.inputs) {
      if (input.kind == NodeTensor::Kind::Input || input.kind == NodeTensor::Kind::Value)
        values.push_back(&input);
      if (input.kind == NodeTensor::Kind::Input)
        chosen |= !dist::getLayout(arguments.lookup(input.origin).getType()).splittingAxes().empty();
    }
    if (!chosen)
      return sharding;
    auto add = [&](const std::string &name, ArrayRef<int64_t> shape, const dist::Layout &layout) {
      if (auto spec = specOf(name, shape, layout, sharding.stage);
          spec && llvm::none_of(sharding.specs, [&](auto &s) { return s.tensor == name; }))
        sharding.specs.push_back(*spec);
    };
    // An operator that several nodes were fused into has other operands than its node.
    bool alike = data.size() == values.size();
    size_t next = 0;
    for (const NodeTensor &input : node.inputs) {
      auto variable = input.kind == NodeTensor::Kind::Parameter
                          ? module.lookupSymbol<nn::VariableOp>(input.origin)
                          : nn::VariableOp();
      if (variable) {
        dist::Layout stored = dist::getLayout(variable.getType()), seen;
        for (int64_t dim : input.dims)
          seen.dims.push_back(stored.dims[dim]);
        add(input.name, input.shape, seen);
      }
      if (input.kind == NodeTensor::Kind::Input)
        add(input.name, input.shape, dist::getLayout(arguments.lookup(input.origin).getType()));
      else if (input.kind == NodeTensor::Kind::Value && alike)
        add(input.name, input.shape, dist::getLayout(data.begin()[next].second.getType()));
      next += input.kind == NodeTensor::Kind::Input || input.kind == NodeTensor::Kind::Value;
    }
    Operation *last = ops.back();
    if (alike && node.outputs.size() == 1 && last->getNumResults() == 1) {
      Value home = last->getResult(0);
      if (auto type = cast<RankedTensorType>(home.getType()); dist::getLayout(type).isPartial())
        for (Operation *user : home.getUsers())
          if (isa<dist::ReshardOp>(user))
            home = user->getResult(0);
      add(node.outputs[0].name, node.outputs[0].shape, dist::getLayout(home.getType()));
    }
    return sharding;
  }

  // The variable that a value is made of by moving elements and blocks about.
  static Operation *variableOf(Value value) {
    Operation *op = value.getDefiningOp();
    while (op && !isa<nn::ReadOp>(op)) {
      if (op->getNumOperands() != 1 ||
          (!isa<dist::ReshardOp>(op) && (!isa<nn::FactorOpInterface>(op) || !sameElements(op))))
        return nullptr;
      op = op->getOperand(0).getDefiningOp();
    }
    return op;
  }
  static bool sameElements(Operation *op) {
    auto in = dyn_cast<RankedTensorType>(op->getOperand(0).getType()),
         out = dyn_cast<RankedTensorType>(op->getResult(0).getType());
    return in && out && in.getNumElements() == out.getNumElements();
  }

  // How a tensor of this shape is sharded by a layout of its elements over the ranks of its node's stage;
  // nothing where the format has no words for it.
  std::optional<ShardingSpec> specOf(const std::string &name, ArrayRef<int64_t> shape,
                                     const dist::Layout &layout, std::optional<int64_t> stage) const {
    if (name.empty() || layout.isPartial())
      return std::nullopt;
    ShardingSpec spec{name, {}, {}};
    dist::AxisList axes;
    auto atoms = layout.atoms();
    size_t k = 0;
    for (auto [d, size] : llvm::enumerate(shape)) {
      ShardedDim dim{int64_t(d), {}};
      int64_t rest = size;
      for (; rest > 1 && k < atoms.size() && rest % atoms[k]->size == 0; ++k) {
        rest /= atoms[k]->size;
        dim.parts.push_back({atoms[k]->size, dist::product(atoms[k]->axes)});
        axes.append(atoms[k]->axes.begin(), atoms[k]->axes.end());
      }
      if (rest != 1)
        return std::nullopt;
      // What is whole behind the last shard is one block with it.
      while (dim.parts.size() > 1 && dim.parts.back().second == 1) {
        dim.parts[dim.parts.size() - 2].first *= dim.parts.back().first;
        dim.parts.pop_back();
      }
      if (!dim.parts.empty() && (dim.parts.size() > 1 || dim.parts[0].second > 1))
        spec.dims.push_back(dim);
    }
    spec.holders.resize(dist::product(axes));
    for (int64_t rank = 0; rank < mesh.numRanks(); ++rank)
      if (!stage || mesh.index(rank, {pipeline->axisRef()}) == *stage)
        spec.holders[mesh.index(rank, axes)].push_back(rank);
    return spec;
  }

  ModuleOp module;
  dist::Mesh mesh;
  FunctionOpInterface func;
  llvm::StringMap<SmallVector<Operation *>> opsOf;
  llvm::StringMap<BlockArgument> arguments;
  std::optional<dist::Pipeline> pipeline;
  llvm::StringMap<int64_t> stageOf; // of nodes
};

} // namespace

int tessera::convertToOnnx(const CompileOptions &given) {
  auto context = makeContext();
  installDiagnostics(*context);
  Compilation compilation(given, *context);
  if (failed(compilation.run(Phase::Differentiate)))
    return 1;
  std::map<std::string, Weight> weights;
  if (!given.weights.empty()) {
    WeightStore trained;
    if (failed(trained.addSafetensors(given.weights, context.get())))
      return 1;
    auto found = weightsOf(*compilation.module, trained, given.weights);
    if (failed(found))
      return 1;
    for (auto &[variable, weight] : *found)
      weights[SymbolTable::getSymbolName(variable).str()] = weight;
  }
  FailureOr<Plan> plan = failure();
  {
    // Assign says it again.
    ScopedDiagnosticHandler quiet(
        context.get(), [](Diagnostic &d) { return success(d.getSeverity() != DiagnosticSeverity::Error); });
    plan = makePlan(*compilation.module, given.assign);
  }
  if (failed(plan) || failed(compilation.run(Phase::Propagate)))
    return 1;
  if (auto type = nn::kComputeType.of(*compilation.module))
    plan->compute = exec::dtypeName(type.getValue());
  OnnxAdditions additions = Annotator(*compilation.module).annotate(compilation.nodes);
  additions.weights = std::move(weights);
  bool hasMemory = plan->memory.device || plan->memory.host || !plan->places.empty();
  if (!plan->mesh.empty() || plan->microbatches > 1 || !plan->compute.empty() || hasMemory) {
    llvm::raw_string_ostream os(additions.plan);
    plan->print(os);
  }
  try {
    writeOnnx(given.model, given.import, additions, given.output);
  } catch (const ImportError &error) {
    emitError(NameLoc::get(StringAttr::get(context.get(), given.model))) << error.what();
    return 1;
  }
  return 0;
}
