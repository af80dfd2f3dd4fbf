#include "lib/Target/Program.h"
#include "dialects/dist/Attributes.h"
#include "dialects/dist/CollectiveSize.h"
#include "dialects/dist/Pipeline.h"
#include "dialects/dist/Reshard.h"
#include "dialects/exec/Attributes.h"
#include "dialects/nn/Attributes.h"
#include "lib/Target/ProgramWriter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"
#include "passes/Pipeline/PipelineSchedule.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace tessera;
using namespace tessera::description;
namespace json = llvm::json;

std::string ProgramWriter::setName(ArrayRef<dist::AxisRef> axes) const {
  std::string name;
  for (const dist::AxisRef &axis : mesh.declared())
    if (llvm::any_of(axes, [&](const dist::AxisRef &a) { return a.name == axis.name; }))
      name += (name.empty() ? "" : ",") + axis.name;
  return name;
}

// The axes that a value is the same over. Stages are not among them: who has it at all, the runtime finds by
// the stages' buffers.
json::Array ProgramWriter::replicas(const dist::Layout &layout) const {
  dist::AxisList rest = mesh.rest(layout.splittingAxes());
  llvm::erase_if(rest, [&](const dist::AxisRef &axis) { return pipeline && axis.name == pipeline->axis; });
  return axesOf(rest);
}

json::Object ProgramWriter::variable(nn::VariableOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  dist::Layout layout = dist::getLayout(type);
  json::Object object{{"name", op.getSymName()},
                      {"source", op.getSource().value_or("")},
                      {"transposed", op.getTransposed()},
                      {"role", op.getRole()},
                      {"trained", op.getTrained()},
                      {"dtype", exec::dtypeName(type.getElementType())},
                      {"shape", shapeOf(type.getShape())},
                      {"layout", layoutOf(layout)},
                      {"replicas", replicas(layout)},
                      {"of", nullptr},
                      {"slot", nullptr},
                      {"init", op.getInit()}};
  if (!layout.flat.empty())
    object["flat"] = json::Object{{"axes", axesOf(layout.flat)},
                                  {"padded", layout.localElements() * dist::product(layout.flat)}};
  if (op.getOf())
    object["of"] = *op.getOf();
  if (op.getSlot())
    object["slot"] = *op.getSlot();
  if (auto aliases = op.getAliases())
    object["aliases"] = valueOf(*aliases);
  return object;
}

json::Object ProgramWriter::sentBy(StringRef program) const {
  json::Object result;
  auto it = sent.find(program);
  if (it == sent.end())
    return result;
  int64_t stages = numStages(), share = stages * mesh.numRanks();
  for (auto &[axes, kinds] : it->second) {
    json::Object byKind;
    for (auto &[kind, entry] : kinds)
      byKind[kind] = json::Object{{"count", (2 * entry.count + stages) / (2 * stages)},
                                  {"bytes", (2 * entry.total + share) / (2 * share)}};
    result[axes] = std::move(byKind);
  }
  return result;
}

// The steps that were emitted, simulated with equal costs.
std::optional<pipeline::Simulation> ProgramWriter::simulated(StringRef program) const {
  const pipeline::Schedule *schedule = pipeline ? pipeline::findSchedule(pipeline->schedule) : nullptr;
  auto order = orders.find(program);
  if (!schedule || order == orders.end())
    return std::nullopt;
  return pipeline::simulate(*schedule,
                            {numStages(), int64_t(pipeline->stages.size()), dist::microbatchTurns(module)},
                            order->second);
}

// Of the training program where there is one.
json::Value ProgramWriter::pipelineFigures() const {
  auto training = nn::programsOf(module, nn::ProgramRole::Train);
  FunctionOpInterface program = training.empty() ? nn::inferenceProgram(module) : training.front();
  auto simulation = program ? simulated(dist::programName(program)) : std::nullopt;
  if (!simulation)
    return nullptr;
  json::Array live;
  for (double held : simulation->live)
    live.push_back(held == double(int64_t(held)) ? json::Value(int64_t(held)) : json::Value(held));
  return json::Object{{"axis", pipeline->axis},
                      {"schedule", pipeline->schedule},
                      {"bubble", simulation->bubble},
                      {"live_microbatches", std::move(live)}};
}

FailureOr<ProgramText> ProgramWriter::program(func::FuncOp func) {
  buffers.clear();
  scalarInputs.clear();
  std::string programName = dist::programName(func).str();
  int64_t stage = dist::stageOf(func);
  sentHere = &sent[programName];
  if (dist::kStage.isOn(func)) {
    orders[programName].resize(numStages());
    stepsHere = &orders[programName][stage];
  }
  totalFlops = 0;
  moved = {};
  auto bufferOf = [&](Value value) {
    return value ? json::Value(buffers.lookup(value)) : json::Value(nullptr);
  };
  json::Array inputs, outputs;
  ProgramText text;
  for (Operation &op : func.getBody().front()) {
    if (isa<exec::BufferOp, exec::PartOp>(op)) {
      exec::BufferRange range = exec::rangeOf(op.getResult(0));
      buffers[op.getResult(0)] = text.buffers.size();
      json::Object object{{"offset", int64_t(range.root.getOffset()) + range.offset},
                          {"bytes", range.bytes},
                          {"category", range.root.getCategory()},
                          {"variable", nullptr}};
      if (Tier tier = range.root.getType().getTier(); tier != Tier::Device)
        object["tier"] = tierName(tier);
      if (auto name = range.root.getVariable(); name && isa<exec::BufferOp>(op))
        object["variable"] = variables.lookup(*name);
      text.buffers.push_back(std::move(object));
    } else if (auto input = dyn_cast<exec::InputOp>(op)) {
      json::Object object{{"name", input.getName()},
                          {"dtype", exec::dtypeName(input.getElement())},
                          {"shape", shapeOf(input.getShape())},
                          {"layout", layoutOf(cast<dist::LayoutAttr>(input.getLayout()).getLayout())},
                          {"buffer", bufferOf(input.getBuffer())},
                          {"range", nullptr},
                          {"kind", input.getKind()}};
      if (auto range = input.getRange())
        object["range"] = shapeOf(*range);
      if (input.getKind() == nn::stringifyInputKind(nn::InputKind::Scalar))
        scalarInputs[input.getName()] = inputs.size();
      inputs.push_back(std::move(object));
    } else if (auto output = dyn_cast<exec::OutputOp>(op)) {
      dist::Layout layout = cast<dist::LayoutAttr>(output.getLayout()).getLayout();
      outputs.push_back(json::Object{{"name", output.getName()},
                                     {"dtype", exec::dtypeName(output.getElement())},
                                     {"shape", shapeOf(output.getShape())},
                                     {"layout", layoutOf(layout)},
                                     {"replicas", replicas(layout)},
                                     {"buffer", bufferOf(output.getBuffer())}});
    }
  }
  if (failed(operations(func.getBody().front(), text.ops, 1)))
    return failure();
  json::Object memory;
  if (auto attr = exec::kMemory.of(func))
    memory = figuresOf(attr);
  text.rest = json::Object{
      {"name", programName},
      {"stage", stage},
      {"inputs", std::move(inputs)},
      {"outputs", std::move(outputs)},
      {"scalars", json::Array{"lr", "beta1", "beta2", "eps", "bias1", "bias2", "momentum", "clip_norm"}},
      {"memory", std::move(memory)},
      {"flops", int64_t(totalFlops)}};
  json::Object between;
  for (rt::Direction direction : rt::directions)
    if (moved[direction] > 0)
      between[rt::nameOf(direction)] = moved[direction];
  if (!between.empty())
    text.rest["moved"] = std::move(between);
  return text;
}

FailureOr<std::string> tessera::describeProgram(ModuleOp module, const ProgramInfo &info) {
  auto meshes = module.getOps<dist::MeshOp>();
  if (meshes.empty())
    return module.emitError("has no dist.mesh");
  dist::Mesh mesh = (*meshes.begin()).getMesh().getMesh();
  int64_t micro = dist::microbatches(module);
  ProgramWriter writer(module, mesh, info);
  json::Array axes, variables;
  std::vector<ProgramText> programs;
  for (const dist::AxisRef &axis : mesh.declared())
    axes.push_back(json::Array{axis.name, axis.size});
  for (auto variable : module.getOps<nn::VariableOp>())
    variables.push_back(writer.variable(variable));
  for (auto func : module.getOps<func::FuncOp>()) {
    FailureOr<ProgramText> program = writer.program(func);
    if (failed(program))
      return failure();
    programs.push_back(std::move(*program));
  }
  ListText texts;
  for (ProgramText &program : programs) {
    std::string name = program.rest.getString("name")->str();
    program.rest["sent"] = writer.sentBy(name);
    std::pair<StringRef, ListText> lists[] = {{"buffers", std::move(program.buffers)},
                                              {"ops", std::move(program.ops)}};
    texts.push_back(objectText(program.rest, lists));
  }
  json::Object object{{"format", 1},
                      {"target", info.target},
                      {"dtype", info.dtype},
                      {"model", info.modelHash},
                      {"plan", info.planHash},
                      {"threads", info.threads},
                      {"mesh", std::move(axes)},
                      {"micro", micro},
                      {"pipeline", writer.pipelineFigures()},
                      {"variables", std::move(variables)}};
  if (dist::ElasticAttr elastic = dist::kElastic.of(module)) {
    json::Object shared{{"axis", elastic.getAxis()},
                        {"sizes", json::Array(elastic.getSizes())},
                        {"shards", elastic.getShards()}};
    if (elastic.getScales())
      shared["scales"] = true;
    object["elastic"] = std::move(shared);
  }
  if (!info.ownRates.empty())
    object["own_rates"] = info.ownRates;
  if (!info.rates.empty())
    object["rates"] = info.rates;
  for (auto [name, bytes] : {std::pair("device_capacity", dist::kDeviceMemory.of(module)),
                             {"host_capacity", dist::kHostMemory.of(module)},
                             {"nvme_capacity", dist::kNvmeMemory.of(module)}})
    if (bytes)
      object[name] = bytes.getInt();
  if (StringAttr folder = dist::kNvmeFolder.of(module))
    object["nvme_folder"] = folder.getValue();
  // Programs last: who reads them knows then what they refer to, and need not keep their text.
  std::pair<StringRef, ListText> lists[] = {{"programs", std::move(texts)}};
  return objectText(object, lists);
}
