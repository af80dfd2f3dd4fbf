// The operations of a program.
#include "dialects/dist/CollectiveSize.h"
#include "dialects/dist/Reshard.h"
#include "lib/Support/Location.h"
#include "lib/Target/ProgramWriter.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tessera;
using namespace tessera::description;
namespace json = llvm::json;

static json::Object attributesOf(DictionaryAttr settings) {
  json::Object attrs;
  for (NamedAttribute attr : settings)
    attrs[attr.getName().str()] = valueOf(attr.getValue());
  return attrs;
}

json::Array ProgramWriter::indices(ValueRange values) const {
  json::Array list;
  for (Value v : values)
    list.push_back(buffers.lookup(v));
  return list;
}

FailureOr<json::Value> ProgramWriter::expression(Value value) const {
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

FailureOr<json::Array> ProgramWriter::expressions(ValueRange values) const {
  json::Array list;
  for (Value v : values) {
    FailureOr<json::Value> each = expression(v);
    if (failed(each))
      return failure();
    list.push_back(std::move(*each));
  }
  return list;
}

void ProgramWriter::countSent(exec::CollectiveOp op, int64_t times) {
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

void ProgramWriter::countSent(const std::string &axes, const std::string &kind, int64_t times,
                              int64_t bytes) {
  Sent &entry = (*sentHere)[axes][kind];
  entry.count += times;
  entry.total += times * bytes;
}

// A workspace is room for a library, which is as large whatever it is for.
int64_t ProgramWriter::bytesOf(ValueRange buffers, ArrayRef<int64_t> places, int64_t most) {
  int64_t bytes = 0;
  DenseSet<Value> counted;
  for (int64_t place : places) {
    Value value = buffers[place];
    auto buffer = value.getDefiningOp<exec::BufferOp>();
    if ((!buffer || buffer.getCategory() != "workspace") && counted.insert(value).second)
      bytes += std::min(exec::rangeOf(value).bytes, most);
  }
  return bytes;
}

void ProgramWriter::noteChanges(json::Object &object, ValueRange buffers, ArrayRef<int64_t> writes) {
  if (llvm::any_of(writes, [&](int64_t argument) {
        return bool(exec::rangeOf(buffers[argument]).root.getVariable());
      }))
    object["changes"] = json::Array(writes);
}

// What is not the usual.
template <class Op> static void describeWork(Op op, json::Object &object) {
  if (auto work = op.getWork())
    object["class"] = *work;
  if (auto functions = op.getFunctions())
    object["functions"] = int64_t(functions->convertToDouble());
  if (auto bytes = op.getBytesRead())
    object["read"] = int64_t(bytes->convertToDouble());
}

FailureOr<json::Object> ProgramWriter::launch(exec::LaunchOp op) {
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
  describeWork(op, object);
  noteChanges(object, op.getBuffers(), op.getWrites());
  return object;
}

FailureOr<json::Object> ProgramWriter::call(exec::CallOp op, int64_t times) {
  FailureOr<json::Array> scalars = expressions(op.getScalars());
  if (failed(scalars))
    return failure();
  double operations = op.getFlops() ? op.getFlops()->convertToDouble() : 0;
  totalFlops += operations * double(times);
  const int64_t touched = op.getTouched().value_or(INT64_MAX);
  json::Object object{{"op", "call"},
                      {"function", op.getFunction()},
                      {"args", indices(op.getBuffers())},
                      {"attrs", attributesOf(op.getSettings())},
                      {"scalars", std::move(*scalars)},
                      {"flops", int64_t(operations)},
                      {"read", bytesOf(op.getBuffers(), op.getReads(), touched)},
                      {"written", bytesOf(op.getBuffers(), op.getWrites(), touched)},
                      {"name", nodeName(op.getLoc()).str()},
                      {"kind", op.getKind().value_or("")}};
  describeWork(op, object);
  if (auto shape = op.getShape())
    object["shape"] = shapeOf(*shape);
  noteChanges(object, op.getBuffers(), op.getWrites());
  return object;
}

json::Object ProgramWriter::collective(exec::CollectiveOp op, int64_t times) {
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

json::Object ProgramWriter::send(exec::SendOp op, int64_t times) {
  countSent(pipeline->axis, "send", times, int64_t(op.getBytes()) * mesh.numRanks());
  return json::Object{{"op", "send"},
                      {"stage", int64_t(op.getStage())},
                      {"buffer", buffers.lookup(op.getBuffer())},
                      {"bytes", int64_t(op.getBytes())},
                      {"token", int64_t(op.getToken())},
                      {"name", nodeName(op.getLoc()).str()}};
}

json::Object ProgramWriter::copy(exec::CopyOp op, int64_t times) {
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

json::Object ProgramWriter::hostCall(exec::HostCallOp op) {
  json::Object object{{"op", "host_call"},
                      {"function", op.getFunction()},
                      {"args", indices(op.getBuffers())},
                      {"attrs", attributesOf(op.getSettings())},
                      {"token", int64_t(op.getToken())},
                      {"name", nodeName(op.getLoc()).str()}};
  noteChanges(object, op.getBuffers(), op.getWrites());
  return object;
}

json::Object ProgramWriter::step(exec::StepOp op) {
  for (int work = 0; work < 3; ++work)
    if (op.getWork() == dist::stringifyPipelineWork(dist::PipelineWork(work)))
      stepsHere->push_back({pipeline::Work(work), int64_t(op.getChunk()), int64_t(op.getMicro())});
  std::string name =
      (op.getWork() + " " + Twine(int64_t(op.getChunk())) + "." + Twine(int64_t(op.getMicro()))).str();
  return json::Object{{"op", "step"}, {"micro", int64_t(op.getMicro())}, {"name", name}};
}

LogicalResult ProgramWriter::loop(exec::LoopOp op, ListText &list, int64_t times) {
  list.push_back(json::Object{{"op", "loop"}, {"times", int64_t(op.getTimes())}});
  if (failed(operations(op.getBody().front(), list, times * int64_t(op.getTimes()))))
    return failure();
  list.push_back(json::Object{{"op", "end"}});
  return success();
}

LogicalResult ProgramWriter::operations(Block &block, ListText &list, int64_t times) {
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
