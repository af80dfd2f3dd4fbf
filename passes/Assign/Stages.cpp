// Which chunk every forward operator is part of.
#include "passes/Assign/Stages.h"
#include "dialects/dist/Machine.h"
#include "dialects/dist/Reshard.h"
#include "dialects/nn/Attributes.h"
#include "lib/Support/Location.h"
#include "passes/Assign/Balance.h"
#include "passes/Assign/NameIndex.h"
#include "passes/Assign/Pattern.h"
#include "passes/Pipeline/PipelineSchedule.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace tessera;

bool tessera::isGradient(Operation *op) { return nn::kGradOf.isOn(op) || nn::cotangentOfValue(op); }

Dependence::Dependence(func::FuncOp func) {
  DenseSet<Value> onInput(func.getArguments().begin(), func.getArguments().end()), onParameter;
  DenseSet<Operation *> behind; // what follows whole gradients
  SymbolTableCollection symbols;
  for (Operation &op : func.getBody().front()) {
    auto any = [&](auto &&test) { return llvm::any_of(op.getOperands(), test); };
    if (!nn::gradientOfParameter(&op).empty() ||
        any([&](Value v) { return behind.contains(v.getDefiningOp()); }))
      behind.insert(&op);
    bool input = any([&](Value v) { return onInput.contains(v); }),
         parameter = any([&](Value v) { return onParameter.contains(v); });
    if (auto read = dyn_cast<nn::ReadOp>(op)) {
      auto variable = symbols.lookupNearestSymbolFrom<nn::VariableOp>(read, read.getVariableAttr());
      parameter = variable && variable.getRole() == "parameter";
    }
    for (Value result : op.getResults()) {
      if (input)
        onInput.insert(result);
      if (parameter)
        onParameter.insert(result);
    }
    if (input && parameter && isa<nn::FactorOpInterface>(op) && !isGradient(&op) && !behind.contains(&op))
      placed.insert(&op);
  }
}

namespace {

double bytesOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type ? double(type.getNumElements()) * dist::elementBytes(type.getElementType()) : 0;
}

// The modelled time of an operator on one thread: arithmetic or memory, whichever is slower.
double secondsOf(nn::FactorOpInterface op, const dist::Machine &machine, const CutRule &cut) {
  nn::FactorRule rule = op.getFactorRule();
  if (rule.isReshape)
    return 0;
  nn::Work arithmetic = nn::workOf(op), moved = arithmetic;
  if (cut.points > 0) {
    double points = 1;
    for (const nn::Factor &factor : rule.factors)
      points *= double(factor.size);
    return std::max(points / cut.points, moved.bytes / cut.bytes);
  }
  moved.flops = 0;
  arithmetic.bytes = 0;
  return std::max(machine.rates.seconds(arithmetic, 1), machine.rates.seconds(moved, 1));
}

// The value that has the bytes of one, which may be a reshape of it.
Value storageOf(Value value) {
  auto reshape = value.getDefiningOp<nn::FactorOpInterface>();
  while (reshape && reshape.getFactorRule().isReshape) {
    value = reshape->getOperand(0);
    reshape = value.getDefiningOp<nn::FactorOpInterface>();
  }
  return value;
}

// The parameters that an operator of a stage reads, by themselves or through what its stage computes of
// parameters alone: converted, transposed.
void parametersOf(Operation *op, const DenseMap<Operation *, int64_t> &position, SetVector<Value> &reads) {
  SmallVector<Operation *> worklist = {op};
  while (!worklist.empty())
    for (Value operand : worklist.pop_back_val()->getOperands()) {
      Operation *source = operand.getDefiningOp();
      if (!source || position.contains(source))
        continue;
      if (isa<nn::ReadOp>(source))
        reads.insert(operand);
      else
        worklist.push_back(source);
    }
}

// What a model's depth is counted in: lookups and products with a parameter of at least two dimensions.
bool isLayer(Operation *op) {
  int weight = parameterOperand(op);
  return weight >= 0 && cast<RankedTensorType>(op->getOperand(weight).getType()).getRank() >= 2;
}

class Chunks {
public:
  Chunks(ModuleOp module, const Plan &plan, const dist::Mesh &mesh, const CutRule &cut)
      : module(module), plan(plan), rule(*plan.pipeline), mesh(mesh), cut(cut) {
    for (const dist::AxisRef &axis : mesh.declared())
      if (axis.name == rule.axis)
        shape.stages = axis.size;
  }
  LogicalResult run();

private:
  InFlightDiagnostic error(PlanPosition at) {
    if (at.line == 0)
      return module.emitError();
    return emitError(FileLineColLoc::get(module.getContext(), plan.file, at.line, at.column));
  }
  LogicalResult checkAxis();
  LogicalResult balance(func::FuncOp func, ArrayRef<Operation *> ops);
  Chain chainOf(func::FuncOp func, ArrayRef<Operation *> ops) const;
  std::vector<double> liveMicrobatches(func::FuncOp func) const;
  LogicalResult follow(ArrayRef<Operation *> ops);
  void adopt(ArrayRef<Operation *> ops, const llvm::StringMap<int64_t> &known);

  ModuleOp module;
  const Plan &plan;
  const PipelineRule &rule;
  const dist::Mesh &mesh;
  const CutRule &cut;
  pipeline::Shape shape;
  DenseMap<Operation *, int64_t> chunks;
};

} // namespace

// The pipeline's axis is its own: no input and no operator is split over it.
LogicalResult Chunks::checkAxis() {
  for (const InputRule &input : plan.inputs)
    if (llvm::is_contained(input.axes, rule.axis))
      return error(input.at) << "input \"" << input.match << "\" is split over \"" << rule.axis
                             << "\", which is the pipeline's axis; split it over another axis";
  for (const OpRule &op : plan.ops)
    if (llvm::is_contained(op.axes, rule.axis))
      return error(op.at) << "\"" << op.match << "\" is given axis \"" << rule.axis
                          << "\", which is the pipeline's; use another axis, or [pipeline] stages";
  for (const ValueRule &value : plan.values)
    for (auto &[dim, axes] : value.split)
      if (llvm::is_contained(axes, rule.axis))
        return error(value.at) << "value \"" << value.match << "\" is split over \"" << rule.axis
                               << "\", which is the pipeline's axis; split it over another axis";
  if (llvm::is_contained(plan.zero.axes, rule.axis))
    return error(plan.zero.at)
           << "[zero] is given axis \"" << rule.axis
           << "\", which is the pipeline's: its ranks have different parameters; use another axis";
  return success();
}

LogicalResult Chunks::balance(func::FuncOp func, ArrayRef<Operation *> ops) {
  int64_t layers = llvm::count_if(ops, isLayer);
  if (layers < shape.chunks) {
    std::string why;
    if (shape.chunks > shape.stages)
      why =
          " of schedule " + rule.schedule + " (" + std::to_string(shape.chunks / shape.stages) + " a stage)";
    int64_t possible = layers * shape.stages / shape.chunks;
    std::string remedy = possible > 1 ? "use at most " + std::to_string(possible) + " stages"
                         : layers > 1 ? "schedule 1f1b can have up to " + std::to_string(layers) + " stages"
                                      : "it cannot be cut";
    return error(rule.at) << "the model has " << layers << (layers == 1 ? " layer" : " layers")
                          << " (products and lookups with a parameter), fewer than the " << shape.chunks
                          << (shape.chunks > shape.stages ? " chunks" : " stages of the pipeline") << why
                          << "; " << remedy;
  }
  int64_t begin = 0;
  std::vector<int64_t> ends = tessera::balance(chainOf(func, ops), liveMicrobatches(func), cut.tolerance);
  for (auto [chunk, end] : llvm::enumerate(ends))
    for (; begin < end; ++begin)
      chunks[ops[begin]] = int64_t(chunk);
  return success();
}

// A batch's values are split over the axes of the first input; parameters, where they are, over the others.
Chain Chunks::chainOf(func::FuncOp func, ArrayRef<Operation *> ops) const {
  dist::Machine machine = dist::Machine::of(module);
  dist::Link link = machine.links.link(rule.axis);
  double batchRanks = 1;
  if (!plan.inputs.empty())
    for (const std::string &axis : plan.inputs.front().axes)
      batchRanks *= double(mesh.sizeOf(axis).value_or(1));
  double otherRanks = double(mesh.numRanks()) / double(shape.stages) / batchRanks;
  // Parameter, gradient and AdamW's two moments.
  double copies = nn::isTraining(func) ? 4 : 1;
  DenseMap<Operation *, int64_t> position;
  for (auto [i, op] : llvm::enumerate(ops))
    position[op] = int64_t(i);
  Chain chain{int64_t(ops.size())};
  DenseSet<Value> kept; // of values that are reshapes of each other one
  for (auto [i, op] : llvm::enumerate(ops)) {
    chain.seconds[i + 1] = chain.seconds[i] + secondsOf(cast<nn::FactorOpInterface>(op), machine, cut);
    chain.layers[i + 1] = chain.layers[i] + isLayer(op);
    SetVector<Value> reads;
    parametersOf(op, position, reads);
    chain.variables[i + 1] = chain.variables[i];
    for (Value read : reads)
      chain.variables[i + 1] += copies * bytesOf(read) / otherRanks;
    chain.activations[i + 1] = chain.activations[i];
    for (Value result : op->getResults()) {
      if (llvm::any_of(result.getUsers(), isGradient) && kept.insert(storageOf(result)).second)
        chain.activations[i + 1] += bytesOf(result) / batchRanks / double(shape.micro);
      int64_t last = int64_t(i);
      for (Operation *user : result.getUsers())
        if (auto it = position.find(user); it != position.end())
          last = std::max(last, it->second);
      for (int64_t k = int64_t(i) + 1; k <= last; ++k)
        chain.crossing[k] += link.beta * bytesOf(result);
    }
  }
  return chain;
}

// Of each chunk, how many microbatches' activations its stage holds at once. Of an executable of several
// sizes as in the largest: all are to have the same cut, or they would not add in the same order.
std::vector<double> Chunks::liveMicrobatches(func::FuncOp func) const {
  std::vector<double> live(shape.chunks, 1);
  const pipeline::Schedule &schedule = *pipeline::findSchedule(rule.schedule);
  pipeline::Shape largest = shape;
  if (plan.elastic)
    largest.micro = plan.elastic->shards / plan.elastic->sizes.back();
  if (!nn::isTraining(func) || !schedule.refusal(largest).empty())
    return live;
  if (auto simulation = pipeline::simulate(schedule, largest, schedule.order(largest)))
    for (int64_t chunk = 0; chunk < shape.chunks; ++chunk)
      live[chunk] = simulation->live[schedule.stageOf(chunk, shape.stages)];
  return live;
}

// By the plan's globs; what they do not name goes with the latest of its operands.
LogicalResult Chunks::follow(ArrayRef<Operation *> ops) {
  NameIndex names(module);
  DenseSet<Operation *> places(ops.begin(), ops.end());
  DenseMap<Operation *, size_t> named; // the first list that does
  SmallVector<std::pair<size_t, StringRef>> unmatched;
  for (auto [list, globs] : llvm::enumerate(rule.stages))
    for (const std::string &glob : globs) {
      bool matches = false;
      for (Operation *op : names.matching(glob))
        if (places.contains(op))
          matches = true, named.try_emplace(op, list);
      if (!matches)
        unmatched.push_back({list, glob});
    }
  llvm::BitVector used(shape.chunks);
  for (Operation *op : ops) {
    int64_t least = 0;
    Operation *source = nullptr;
    for (Value operand : op->getOperands())
      if (auto it = chunks.find(operand.getDefiningOp()); it != chunks.end() && it->second >= least)
        least = it->second, source = operand.getDefiningOp();
    auto list = named.find(op);
    int64_t chunk = list == named.end() ? least : int64_t(list->second);
    if (chunk < least)
      return error(rule.stagesAt[chunk])
             << "stages form a cycle: \""
             << (names.of(op).empty() ? op->getName().getStringRef() : names.of(op).front()) << "\" of list "
             << chunk << " uses a value of \"" << nodeName(source->getLoc()) << "\", which is of list "
             << least << "; values flow to later lists only: move it to list " << least << " or later";
    chunks[op] = chunk;
    used.set(chunk);
  }
  for (auto [list, glob] : unmatched)
    return error(rule.stagesAt[list])
           << "no operator, module or parameter that belongs to a stage is named \"" << glob << "\""
           << names.nearest(glob);
  if (int list = used.find_first_unset(); list >= 0)
    return error(rule.stagesAt[list])
           << "list " << list
           << " of stages has no operator of its own; earlier lists match all that it names";
  return success();
}

// As in another program of the module; what is not in that one goes with the latest of its operands.
void Chunks::adopt(ArrayRef<Operation *> ops, const llvm::StringMap<int64_t> &known) {
  for (Operation *op : ops) {
    int64_t chunk = 0;
    for (Value operand : op->getOperands())
      chunk = std::max(chunk, chunks.lookup(operand.getDefiningOp()));
    auto id = nn::kId.of(op);
    auto it = id ? known.find(id.getValue()) : known.end();
    chunks[op] = it == known.end() ? chunk : it->second;
  }
}

LogicalResult Chunks::run() {
  const pipeline::Schedule &schedule = *pipeline::findSchedule(rule.schedule);
  shape.chunks = rule.stages.empty() ? shape.stages * schedule.chunksPerStage : int64_t(rule.stages.size());
  shape.micro = dist::microbatchTurns(module);
  if (failed(checkAxis()))
    return failure();
  // An axis of one rank is no pipeline.
  if (shape.stages == 1)
    return success();
  if (std::string why = schedule.refusal(shape); !why.empty())
    return error(rule.at) << "pipeline schedule " << rule.schedule << " " << why;
  dist::Pipeline pipeline{rule.axis, rule.schedule, {}, shape.stages};
  for (int64_t chunk = 0; chunk < shape.chunks; ++chunk)
    pipeline.stages.push_back(schedule.stageOf(chunk, shape.stages));
  pipeline.setOn(module);
  // The training program first: operators of other programs have the chunk of the same operator there.
  SmallVector<func::FuncOp> funcs(module.getOps<func::FuncOp>());
  llvm::stable_sort(funcs,
                    [](func::FuncOp a, func::FuncOp b) { return nn::isTraining(a) && !nn::isTraining(b); });
  llvm::StringMap<int64_t> known;
  for (func::FuncOp func : funcs) {
    Dependence dependence(func);
    ArrayRef<Operation *> ops = dependence.places();
    auto idOf = [](Operation *op) { return nn::kId.of(op); };
    if (!known.empty())
      adopt(ops, known);
    else if (failed(rule.stages.empty() ? balance(func, ops) : follow(ops)))
      return failure();
    for (Operation *op : ops) {
      int64_t chunk = chunks.at(op);
      dist::PipelinePart{chunk, dist::PipelineWork::Forward}.setOn(op);
      if (idOf(op))
        known[idOf(op).getValue()] = chunk;
    }
    if (nn::isTraining(func) && failed(stageTraining(func, dependence, pipeline)))
      return failure();
  }
  return success();
}

LogicalResult tessera::assignStages(ModuleOp module, const Plan &plan, const dist::Mesh &mesh,
                                    const CutRule &cut) {
  return Chunks(module, plan, mesh, cut).run();
}
