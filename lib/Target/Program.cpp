#include "lib/Target/Program.h"
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pipeline.h"
#include "dialects/exec/Attributes.h"
#include "dialects/nn/Attributes.h"
#include "lib/Target/Describer.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Pipeline/PipelineSchedule.h"

using namespace mlir;
using namespace tessera;
using namespace tessera::description;

std::string Describer::setName(ArrayRef<dist::AxisRef> axes) const {
  std::string name;
  for (const dist::AxisRef &axis : mesh.declared())
    if (llvm::any_of(axes, [&](const dist::AxisRef &a) { return a.name == axis.name; }))
      name += (name.empty() ? "" : ",") + axis.name;
  return name;
}

// The axes that a value is the same over. Stages are not among them: who has it at all, the runtime finds by
// the stages' buffers.
rt::Axes Describer::replicas(const dist::Layout &layout) const {
  dist::AxisList rest = mesh.rest(layout.splittingAxes());
  llvm::erase_if(rest, [&](const dist::AxisRef &axis) { return pipeline && axis.name == pipeline->axis; });
  return axesOf(rest);
}

rt::Variable Describer::variable(nn::VariableOp op) const {
  auto type = cast<RankedTensorType>(op.getType());
  dist::Layout layout = dist::getLayout(type);
  rt::Variable variable;
  variable.name = op.getSymName().str();
  variable.source = op.getSource().value_or("").str();
  variable.transposed = op.getTransposed();
  variable.role = op.getRole().str();
  variable.trained = op.getTrained();
  variable.dtype = dtypeOf(type.getElementType());
  variable.shape = type.getShape();
  variable.layout = layoutOf(layout);
  if (!layout.flat.empty())
    variable.flat = {layout.localElements() * dist::product(layout.flat), axesOf(layout.flat)};
  variable.replicas = replicas(layout);
  variable.of = op.getOf().value_or("").str();
  variable.slot = op.getSlot().value_or("").str();
  variable.init = op.getInit().str();
  if (auto aliases = op.getAliases())
    for (auto alias : aliases->getAsRange<StringAttr>())
      variable.aliases.push_back(alias.str());
  return variable;
}

rt::SentTable Describer::sentBy(StringRef program) const {
  rt::SentTable result;
  auto it = sent.find(program);
  if (it == sent.end())
    return result;
  int64_t stages = numStages(), share = stages * mesh.numRanks();
  for (auto &[axes, kinds] : it->second)
    for (auto &[kind, entry] : kinds)
      result[axes][kind] = {(2 * entry.count + stages) / (2 * stages),
                            (2 * entry.total + share) / (2 * share)};
  return result;
}

// The steps that were emitted, simulated with equal costs.
std::optional<pipeline::Simulation> Describer::simulated(StringRef program) const {
  const pipeline::Schedule *schedule = pipeline ? pipeline::findSchedule(pipeline->schedule) : nullptr;
  auto order = orders.find(program);
  if (!schedule || order == orders.end())
    return std::nullopt;
  return pipeline::simulate(*schedule,
                            {numStages(), int64_t(pipeline->stages.size()), dist::microbatchTurns(module)},
                            order->second);
}

// Of the training program where there is one.
nlohmann::json Describer::pipelineFigures() const {
  auto training = nn::programsOf(module, nn::ProgramRole::Train);
  FunctionOpInterface program = training.empty() ? nn::inferenceProgram(module) : training.front();
  auto simulation = program ? simulated(dist::programName(program)) : std::nullopt;
  if (!simulation)
    return nullptr;
  nlohmann::json live = nlohmann::json::array();
  for (double held : simulation->live)
    live.push_back(held == double(int64_t(held)) ? nlohmann::json(int64_t(held)) : nlohmann::json(held));
  return {{"axis", pipeline->axis},
          {"schedule", pipeline->schedule},
          {"bubble", simulation->bubble},
          {"live_microbatches", std::move(live)}};
}

rt::BufferRange Describer::buffer(Value value) const {
  exec::BufferRange range = exec::rangeOf(value);
  rt::BufferRange result;
  result.tier = range.root.getType().getTier();
  result.offset = int64_t(range.root.getOffset()) + range.offset;
  result.bytes = range.bytes;
  const auto *category = llvm::find(rt::categoryNames, range.root.getCategory());
  result.category = rt::Category(category - rt::categoryNames.begin());
  if (auto name = range.root.getVariable(); name && value.getDefiningOp<exec::BufferOp>())
    result.variable = variables.lookup(*name);
  return result;
}

rt::ProgramInput Describer::input(exec::InputOp op) const {
  rt::ProgramInput input;
  input.name = op.getName().str();
  input.kind = op.getKind().str();
  input.dtype = dtypeOf(op.getElement());
  input.shape = op.getShape();
  input.layout = layoutOf(cast<dist::LayoutAttr>(op.getLayout()).getLayout());
  input.buffer = bufferOf(op.getBuffer());
  if (auto range = op.getRange()) {
    if (range->size() != 2)
      throw rt::Error("the range of input '", input.name, "' is not [low, high]");
    input.range = {(*range)[0], (*range)[1]};
  }
  return input;
}

rt::ProgramOutput Describer::output(exec::OutputOp op) const {
  dist::Layout layout = cast<dist::LayoutAttr>(op.getLayout()).getLayout();
  return {op.getName().str(), dtypeOf(op.getElement()), op.getShape(),
          layoutOf(layout),   replicas(layout),         bufferOf(op.getBuffer())};
}

FailureOr<rt::Program> Describer::program(func::FuncOp func) {
  buffers.clear();
  scalarInputs.clear();
  rt::Program program;
  program.name = dist::programName(func).str();
  program.stage = dist::stageOf(func);
  if (program.stage < 0 || program.stage >= numStages())
    return func.emitError("is of stage ") << program.stage << ", and there are " << numStages();
  program.scalars = {"lr", "beta1", "beta2", "eps", "bias1", "bias2", "momentum", "clip_norm"};
  sentHere = &sent[program.name];
  if (dist::kStage.isOn(func)) {
    orders[program.name].resize(numStages());
    stepsHere = &orders[program.name][program.stage];
  }
  totalFlops = 0;
  moved = {};
  for (Operation &op : func.getBody().front()) {
    if (isa<exec::BufferOp, exec::PartOp>(op)) {
      buffers[op.getResult(0)] = int64_t(program.buffers.size());
      program.buffers.push_back(buffer(op.getResult(0)));
    } else if (auto each = dyn_cast<exec::InputOp>(op)) {
      if (each.getKind() == nn::stringifyInputKind(nn::InputKind::Scalar))
        scalarInputs[each.getName()] = int64_t(program.inputs.size());
      program.inputs.push_back(input(each));
    } else if (auto each = dyn_cast<exec::OutputOp>(op)) {
      program.outputs.push_back(output(each));
    }
  }
  if (failed(operations(func.getBody().front(), program, 1)))
    return failure();
  if (auto figures = exec::kMemory.of(func))
    program.memory = figuresOf(figures);
  program.flops = double(int64_t(totalFlops));
  program.moved = moved;
  return program;
}

FailureOr<rt::Description> tessera::describeProgram(ModuleOp module, const ProgramInfo &info) {
  auto meshes = module.getOps<dist::MeshOp>();
  if (meshes.empty())
    return module.emitError("has no dist.mesh");
  dist::Mesh mesh = (*meshes.begin()).getMesh().getMesh();
  rt::Description result;
  result.target = info.target;
  result.dtype = info.dtype;
  result.model = info.modelHash;
  result.plan = info.planHash;
  result.threads = info.threads;
  result.ownRates = info.ownRates;
  result.rates = info.rates;
  result.micro = dist::microbatches(module);
  std::vector<std::pair<std::string, int64_t>> axes;
  for (const dist::AxisRef &axis : mesh.declared())
    axes.emplace_back(axis.name, axis.size);
  result.mesh = rt::Mesh(std::move(axes), result.micro);
  if (dist::ElasticAttr elastic = dist::kElastic.of(module))
    result.elastic = rt::shareBatch(result.mesh, elastic.getAxis().str(), elastic.getSizes(),
                                    elastic.getShards(), elastic.getScales());
  for (auto [tier, bytes] : {std::pair(rt::Tier::Device, dist::kDeviceMemory.of(module)),
                             {rt::Tier::Host, dist::kHostMemory.of(module)},
                             {rt::Tier::Nvme, dist::kNvmeMemory.of(module)}})
    if (bytes)
      result.capacity[tier] = bytes.getInt();
  if (StringAttr folder = dist::kNvmeFolder.of(module))
    result.nvmeFolder = folder.getValue().str();
  Describer describer(module, mesh, result.mesh, info);
  for (auto variable : module.getOps<nn::VariableOp>())
    result.variables.push_back(describer.variable(variable));
  for (auto func : module.getOps<func::FuncOp>()) {
    FailureOr<rt::Program> program = describer.program(func);
    if (failed(program))
      return failure();
    result.programs.push_back(std::move(*program));
  }
  result.pipeline = describer.pipelineFigures();
  if (!result.pipeline.is_null())
    result.pipelineAxis = result.pipeline.at("axis");
  for (rt::Program &program : result.programs) {
    program.sent = describer.sentBy(program.name);
    result.complete(program);
  }
  return result;
}
