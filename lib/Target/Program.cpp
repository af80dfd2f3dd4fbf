#include "lib/Target/Program.h"
#include "dialects/dist/Attributes.h"
#include "dialects/dist/CollectiveSize.h"
#include "dialects/dist/Pipeline.h"
#include "dialects/dist/Reshard.h"
#include "dialects/exec/Attributes.h"
#include "dialects/nn/Attributes.h"
#include "lib/Support/Location.h"
#include "lib/Target/JsonText.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"
#include "passes/Pipeline/PipelineSchedule.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace tessera;
namespace json = llvm::json;

namespace {

json::Array axesOf(ArrayRef<dist::AxisRef> axes) {
  json::Array list;
  for (const dist::AxisRef &axis : axes)
    list.push_back(json::Array{axis.name, axis.pre, axis.size});
  return list;
}

json::Array layoutOf(const dist::Layout &layout) {
  json::Array dims;
  for (auto &dim : layout.dims) {
    json::Array atoms;
    for (const dist::Atom &atom : dim) {
      json::Object object{{"size", atom.size}, {"padded", atom.padded}, {"axes", axesOf(atom.axes)}};
      if (atom.zigzag)
        object["order"] = json::Array(atom.chunkOrder());
      atoms.push_back(std::move(object));
    }
    dims.push_back(std::move(atoms));
  }
  return dims;
}

json::Array shapeOf(ArrayRef<int64_t> shape) {
  json::Array list;
  for (int64_t n : shape)
    list.push_back(n);
  return list;
}

// Attributes of library calls: numbers, strings, booleans and lists of them.
json::Value valueOf(Attribute attr) {
  if (auto b = dyn_cast<BoolAttr>(attr))
    return b.getValue();
  if (auto i = dyn_cast<IntegerAttr>(attr))
    return i.getInt();
  if (auto f = dyn_cast<FloatAttr>(attr))
    return f.getValueAsDouble();
  if (auto s = dyn_cast<StringAttr>(attr))
    return s.getValue();
  if (auto a = dyn_cast<DenseI64ArrayAttr>(attr))
    return shapeOf(a.asArrayRef());
  json::Array list;
  if (auto a = dyn_cast<ArrayAttr>(attr))
    for (Attribute item : a)
      list.push_back(valueOf(item));
  return list;
}

// Bytes of a tier, and of those below it under their names.
json::Object figuresOf(DictionaryAttr memory) {
  json::Object object;
  for (NamedAttribute entry : memory)
    if (auto below = dyn_cast<DictionaryAttr>(entry.getValue()))
      object[entry.getName().str()] = figuresOf(below);
    else if (entry.getName() != "bound")
      object[entry.getName().str()] = valueOf(entry.getValue());
  return object;
}

/// A program of the description.
struct ProgramText {
  json::Object rest;
  ListText buffers, ops;
};

class Writer {
public:
  Writer(ModuleOp module, const dist::Mesh &mesh, int64_t micro, const ProgramInfo &info)
      : module(module), mesh(mesh), micro(micro), kernelPrefix(info.kernelPrefix),
        pipeline(dist::Pipeline::of(module)) {
    for (auto [i, variable] : llvm::enumerate(module.getOps<nn::VariableOp>()))
      variables[variable.getSymName()] = i;
  }
  json::Object variable(nn::VariableOp op);
  FailureOr<ProgramText> program(func::FuncOp func);
  /// What all stages of a program send.
  json::Object sentBy(StringRef program) const;
  std::optional<pipeline::Simulation> simulated(StringRef program) const;
  json::Value pipelineFigures() const;

private:
  /// What the operations of a block, which runs `times` times a step, do; counts operations and bytes on the
  /// way.
  LogicalResult operations(Block &block, ListText &list, int64_t times);
  FailureOr<json::Object> launch(exec::LaunchOp op);
  FailureOr<json::Object> call(exec::CallOp op, int64_t times);
  json::Object collective(exec::CollectiveOp op, int64_t times);
  json::Object send(exec::SendOp op, int64_t times);
  json::Object step(exec::StepOp op);
  json::Object copy(exec::CopyOp op, int64_t times);
  json::Object hostCall(exec::HostCallOp op);
  LogicalResult loop(exec::LoopOp op, ListText &list, int64_t times);
  json::Array indices(ValueRange values) const {
    json::Array list;
    for (Value v : values)
      list.push_back(buffers.lookup(v));
    return list;
  }
  /// Says which arguments a kernel or a call writes, where one of them is a variable's place.
  static void noteChanges(json::Object &object, ValueRange buffers, ArrayRef<int64_t> writes);
  static json::Object attributesOf(DictionaryAttr settings) {
    json::Object attrs;
    for (NamedAttribute attr : settings)
      attrs[attr.getName().str()] = valueOf(attr.getValue());
    return attrs;
  }
  FailureOr<json::Value> expression(Value value) const;
  FailureOr<json::Array> expressions(ValueRange values) const {
    json::Array list;
    for (Value v : values) {
      FailureOr<json::Value> each = expression(v);
      if (failed(each))
        return failure();
      list.push_back(std::move(*each));
    }
    return list;
  }
  void countSent(exec::CollectiveOp op, int64_t times);
  /// `bytes`: what the ranks that execute this function send, all together, times the number of stages.
  void countSent(const std::string &axes, const std::string &kind, int64_t times, int64_t bytes);
  int64_t numStages() const { return pipeline ? pipeline->numStages : 1; }
  json::Array replicas(const dist::Layout &layout) const;
  /// Bytes of those of the buffers at `places`, each counted once.
  static int64_t bytesOf(ValueRange buffers, ArrayRef<int64_t> places);
  // The mesh's axes among `axes`, in the mesh's order: how figures are keyed.
  std::string setName(ArrayRef<dist::AxisRef> axes) const;

  ModuleOp module;
  const dist::Mesh &mesh;
  int64_t micro;
  const std::string kernelPrefix;
  std::optional<dist::Pipeline> pipeline;
  llvm::StringMap<int64_t> variables;
  DenseMap<Value, int64_t> buffers;
  llvm::StringMap<int64_t> scalarInputs; // of the program being written: those of that kind, by name
  struct Sent {
    int64_t count = 0, total = 0; // over the stages; bytes over all ranks, times the number of stages
  };
  using SentTable = std::map<std::string, std::map<std::string, Sent>>;
  llvm::StringMap<SentTable> sent; // by program
  SentTable *sentHere = nullptr;
  llvm::StringMap<pipeline::Order> orders; // by program: the steps that were emitted
  std::vector<pipeline::Step> *stepsHere = nullptr;
  double totalFlops = 0;
  rt::MovedBytes moved; // between the tiers
};

std::string Writer::setName(ArrayRef<dist::AxisRef> axes) const {
  std::string name;
  for (const dist::AxisRef &axis : mesh.declared())
    if (llvm::any_of(axes, [&](const dist::AxisRef &a) { return a.name == axis.name; }))
      name += (name.empty() ? "" : ",") + axis.name;
  return name;
}

// The axes that a value is the same over. Stages are not among them: who has it at all, the runtime finds by
// the stages' buffers.
json::Array Writer::replicas(const dist::Layout &layout) const {
  dist::AxisList rest = mesh.rest(layout.splittingAxes());
  llvm::erase_if(rest, [&](const dist::AxisRef &axis) { return pipeline && axis.name == pipeline->axis; });
  return axesOf(rest);
}

json::Object Writer::variable(nn::VariableOp op) {
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

FailureOr<json::Value> Writer::expression(Value value) const {
  Operation *op = value.getDefiningOp();
  if (IntegerAttr number; matchPattern(value, m_Constant(&number)))
    return json::Value(number.getInt());
  auto described = [&](auto place, StringRef kind) {
    json::Object object{{kind, axesOf(place.getAxes().getAxes())}, {"block", int64_t(place.getBlock())}};
    if (auto shift = place.getShift())
      object["shift"] = json::Array(*shift);
    return object;
  };
  if (auto start = dyn_cast_or_null<dist::BlockStartOp>(op))
    return json::Value(described(start, "start"));
  if (auto valid = dyn_cast_or_null<dist::ValidOp>(op)) {
    json::Object object = described(valid, "valid");
    object["size"] = int64_t(valid.getSize());
    return json::Value(std::move(object));
  }
  auto scalar = dyn_cast_or_null<exec::ScalarOp>(op);
  auto input = scalar ? scalarInputs.find(scalar.getInput()) : scalarInputs.end();
  if (input == scalarInputs.end())
    return emitError(value.getLoc(), "has no place in a program description");
  return json::Value(json::Object{{"input", input->second}, {"times", int64_t(scalar.getTimes())}});
}

void Writer::countSent(exec::CollectiveOp op, int64_t times) {
  auto axes = cast<dist::AxesAttr>(op.getAxes()).getAxes();
  rt::CollectiveSize size = dist::collectiveSize(*rt::findCollectiveKind(op.getKind()), axes, op.getElement(),
                                                 op.getShape(), op.getSplit(), op.getConcat());
  if (op.getShift())
    size.moved = size.ranks;
  else if (rt::collectiveTraits(size.kind).permutes())
    size.moved = dist::movedByPermute(mesh, axes, cast<dist::LayoutAttr>(op.getSourceAttr()).getLayout(),
                                      cast<dist::LayoutAttr>(op.getTargetAttr()).getLayout());
  countSent(setName(axes), op.getKind().str(), times,
            rt::collectiveSentBytes(size) * (mesh.numRanks() / size.ranks));
}

void Writer::countSent(const std::string &axes, const std::string &kind, int64_t times, int64_t bytes) {
  Sent &entry = (*sentHere)[axes][kind];
  entry.count += times;
  entry.total += times * bytes;
}

json::Object Writer::sentBy(StringRef program) const {
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
std::optional<pipeline::Simulation> Writer::simulated(StringRef program) const {
  const pipeline::Schedule *schedule = pipeline ? pipeline::findSchedule(pipeline->schedule) : nullptr;
  auto order = orders.find(program);
  if (!schedule || order == orders.end())
    return std::nullopt;
  return pipeline::simulate(*schedule,
                            {numStages(), int64_t(pipeline->stages.size()), dist::microbatchTurns(module)},
                            order->second);
}

// Of the training program where there is one.
json::Value Writer::pipelineFigures() const {
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

// A workspace is room for a library, which is as large whatever it is for.
int64_t Writer::bytesOf(ValueRange buffers, ArrayRef<int64_t> places) {
  int64_t bytes = 0;
  DenseSet<Value> counted;
  for (int64_t place : places) {
    Value value = buffers[place];
    auto buffer = value.getDefiningOp<exec::BufferOp>();
    if ((!buffer || buffer.getCategory() != "workspace") && counted.insert(value).second)
      bytes += exec::rangeOf(value).bytes;
  }
  return bytes;
}

void Writer::noteChanges(json::Object &object, ValueRange buffers, ArrayRef<int64_t> writes) {
  if (llvm::any_of(writes, [&](int64_t argument) {
        return bool(exec::rangeOf(buffers[argument]).root.getVariable());
      }))
    object["changes"] = json::Array(writes);
}

FailureOr<json::Object> Writer::launch(exec::LaunchOp op) {
  FailureOr<json::Array> scalars = expressions(op.getScalars());
  if (failed(scalars))
    return failure();
  json::Object object{{"op", "kernel"},
                      {"symbol", kernelPrefix + op.getKernel().str()},
                      {"args", indices(op.getBuffers())},
                      {"scalars", std::move(*scalars)},
                      {"extent", int64_t(op.getExtent())},
                      {"grain", int64_t(op.getGrain())},
                      {"read", bytesOf(op.getBuffers(), op.getReads())},
                      {"written", bytesOf(op.getBuffers(), op.getWrites())},
                      {"name", nodeName(op.getLoc()).str()},
                      {"kind", op.getKind().value_or("")}};
  noteChanges(object, op.getBuffers(), op.getWrites());
  return object;
}

FailureOr<json::Object> Writer::call(exec::CallOp op, int64_t times) {
  FailureOr<json::Array> scalars = expressions(op.getScalars());
  if (failed(scalars))
    return failure();
  double operations = op.getFlops() ? op.getFlops()->convertToDouble() : 0;
  totalFlops += operations * double(times);
  json::Object object{{"op", "call"},
                      {"function", op.getFunction()},
                      {"args", indices(op.getBuffers())},
                      {"attrs", attributesOf(op.getSettings())},
                      {"scalars", std::move(*scalars)},
                      {"flops", int64_t(operations)},
                      {"read", bytesOf(op.getBuffers(), op.getReads())},
                      {"written", bytesOf(op.getBuffers(), op.getWrites())},
                      {"name", nodeName(op.getLoc()).str()},
                      {"kind", op.getKind().value_or("")}};
  noteChanges(object, op.getBuffers(), op.getWrites());
  return object;
}

json::Object Writer::collective(exec::CollectiveOp op, int64_t times) {
  countSent(op, times);
  auto args = op.getBuffers();
  json::Object object{{"op", "collective"},
                      {"kind", op.getKind()},
                      {"axes", axesOf(cast<dist::AxesAttr>(op.getAxes()).getAxes())},
                      {"in", buffers.lookup(args[0])},
                      {"out", buffers.lookup(args[1])},
                      {"scratch", args.size() > 2 ? buffers.lookup(args[2]) : int64_t(-1)},
                      {"dtype", exec::dtypeName(op.getElement())},
                      {"reduce", op.getReduce()},
                      {"shape", shapeOf(op.getShape())},
                      {"split", int64_t(op.getSplit())},
                      {"concat", int64_t(op.getConcat())},
                      {"token", int64_t(op.getToken())},
                      {"name", nodeName(op.getLoc()).str()}};
  if (auto source = op.getSourceAttr()) {
    object["source"] = layoutOf(cast<dist::LayoutAttr>(source).getLayout());
    object["target"] = layoutOf(cast<dist::LayoutAttr>(op.getTargetAttr()).getLayout());
  } else if (auto shift = op.getShift()) {
    object["shift"] = int64_t(*shift);
  }
  if (auto root = op.getRoot())
    object["root"] = int64_t(*root);
  if (auto algorithm = op.getAlgorithm())
    object["algorithm"] = *algorithm;
  return object;
}

json::Object Writer::send(exec::SendOp op, int64_t times) {
  countSent(pipeline->axis, "send", times, int64_t(op.getBytes()) * mesh.numRanks());
  return json::Object{{"op", "send"},
                      {"stage", int64_t(op.getStage())},
                      {"buffer", buffers.lookup(op.getBuffer())},
                      {"bytes", int64_t(op.getBytes())},
                      {"token", int64_t(op.getToken())},
                      {"name", nodeName(op.getLoc()).str()}};
}

json::Object Writer::copy(exec::CopyOp op, int64_t times) {
  rt::Direction direction =
      rt::directionOf(op.getSource().getType().getTier(), op.getTarget().getType().getTier());
  int64_t bytes = exec::rangeOf(op.getSource()).bytes;
  moved[direction] += times * bytes;
  return json::Object{{"op", "copy"},
                      {"from", buffers.lookup(op.getSource())},
                      {"to", buffers.lookup(op.getTarget())},
                      {"token", int64_t(op.getToken())},
                      {"name", nodeName(op.getLoc()).str()}};
}

json::Object Writer::hostCall(exec::HostCallOp op) {
  json::Object object{{"op", "host_call"},
                      {"function", op.getFunction()},
                      {"args", indices(op.getBuffers())},
                      {"attrs", attributesOf(op.getSettings())},
                      {"token", int64_t(op.getToken())},
                      {"name", nodeName(op.getLoc()).str()}};
  noteChanges(object, op.getBuffers(), op.getWrites());
  return object;
}

json::Object Writer::step(exec::StepOp op) {
  for (int work = 0; work < 3; ++work)
    if (op.getWork() == dist::stringifyPipelineWork(dist::PipelineWork(work)))
      stepsHere->push_back({pipeline::Work(work), int64_t(op.getChunk()), int64_t(op.getMicro())});
  std::string name =
      (op.getWork() + " " + Twine(int64_t(op.getChunk())) + "." + Twine(int64_t(op.getMicro()))).str();
  return json::Object{{"op", "step"}, {"micro", int64_t(op.getMicro())}, {"name", name}};
}

LogicalResult Writer::loop(exec::LoopOp op, ListText &list, int64_t times) {
  list.push_back(json::Object{{"op", "loop"}, {"times", int64_t(op.getTimes())}});
  if (failed(operations(op.getBody().front(), list, times * int64_t(op.getTimes()))))
    return failure();
  list.push_back(json::Object{{"op", "end"}});
  return success();
}

LogicalResult Writer::operations(Block &block, ListText &list, int64_t times) {
  for (Operation &op : block) {
    if (isa<exec::BufferOp, exec::PartOp, exec::ScalarOp, dist::ValidOp, dist::BlockStartOp, exec::InputOp,
            exec::OutputOp, func::ReturnOp>(op) ||
        op.hasTrait<OpTrait::ConstantLike>())
      continue;
    if (auto inner = dyn_cast<exec::LoopOp>(op)) {
      if (failed(loop(inner, list, times)))
        return failure();
      continue;
    }
    auto object = TypeSwitch<Operation *, FailureOr<json::Object>>(&op)
                      .Case([&](exec::LaunchOp each) { return launch(each); })
                      .Case([&](exec::CallOp each) { return call(each, times); })
                      .Case([&](exec::CollectiveOp each) { return collective(each, times); })
                      .Case([&](exec::SendOp each) { return send(each, times); })
                      .Case([&](exec::RecvOp each) {
                        return json::Object{{"op", "recv"},
                                            {"stage", int64_t(each.getStage())},
                                            {"buffer", buffers.lookup(each.getBuffer())},
                                            {"bytes", int64_t(each.getBytes())},
                                            {"name", nodeName(each.getLoc()).str()}};
                      })
                      .Case([&](exec::StepOp each) { return step(each); })
                      .Case([&](exec::CopyOp each) { return copy(each, times); })
                      .Case([&](exec::HostCallOp each) { return hostCall(each); })
                      .Case([&](exec::WaitOp each) {
                        return json::Object{{"op", "wait"}, {"token", int64_t(each.getToken())}};
                      })
                      .Default([](Operation *other) {
                        return other->emitOpError("has no place in a program description");
                      });
    if (failed(object))
      return failure();
    list.push_back(std::move(*object));
  }
  return success();
}

FailureOr<ProgramText> Writer::program(func::FuncOp func) {
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

} // namespace

FailureOr<std::string> tessera::describeProgram(ModuleOp module, const ProgramInfo &info) {
  auto meshes = module.getOps<dist::MeshOp>();
  if (meshes.empty())
    return module.emitError("has no dist.mesh");
  dist::Mesh mesh = (*meshes.begin()).getMesh().getMesh();
  int64_t micro = dist::microbatches(module);
  Writer writer(module, mesh, micro, info);
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
    texts.push_back(
        objectText(std::move(program.rest), {{"buffers", &program.buffers}, {"ops", &program.ops}}));
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
  return objectText(std::move(object), {{"programs", &texts}});
}
