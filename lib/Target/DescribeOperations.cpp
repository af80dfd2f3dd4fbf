// The operations of a program.
#include "dialects/dist/CollectiveSize.h"
#include "dialects/dist/Reshard.h"
#include "lib/Support/Location.h"
#include "lib/Target/Describer.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tessera;
using namespace tessera::description;

std::shared_ptr<const nlohmann::json> Describer::attributes(DictionaryAttr settings) {
  auto [entry, isNew] = shared.try_emplace(settings);
  if (isNew) {
    nlohmann::json attrs = nlohmann::json::object();
    for (NamedAttribute attr : settings)
      attrs[attr.getName().str()] = valueOf(attr.getValue());
    entry->second = std::make_shared<const nlohmann::json>(std::move(attrs));
  }
  return entry->second;
}

std::vector<int64_t> Describer::indices(ValueRange values) const {
  std::vector<int64_t> list;
  for (Value v : values)
    list.push_back(buffers.lookup(v));
  return list;
}

FailureOr<rt::Expression> Describer::expression(Value value) const {
  Operation *op = value.getDefiningOp();
  rt::Expression result;
  if (IntegerAttr number; matchPattern(value, m_Constant(&number))) {
    result.number = number.getInt();
    return result;
  }
  auto describe = [&](auto place, rt::Expression::Kind kind) {
    result.kind = kind;
    result.axes = axesOf(place.getAxes().getAxes());
    result.block = int64_t(place.getBlock());
    if (auto shift = place.getShift())
      result.shift.assign(shift->begin(), shift->end());
  };
  if (auto start = dyn_cast_or_null<dist::BlockStartOp>(op)) {
    describe(start, rt::Expression::Kind::Start);
    return result;
  }
  if (auto valid = dyn_cast_or_null<dist::ValidOp>(op)) {
    describe(valid, rt::Expression::Kind::Valid);
    result.size = int64_t(valid.getSize());
    return result;
  }
  auto scalar = dyn_cast_or_null<exec::ScalarOp>(op);
  auto input = scalar ? scalarInputs.find(scalar.getInput()) : scalarInputs.end();
  if (input == scalarInputs.end())
    return emitError(value.getLoc(), "has no place in a program description");
  result.kind = rt::Expression::Kind::Input;
  result.number = input->second;
  result.block = int64_t(scalar.getTimes());
  return result;
}

FailureOr<std::vector<rt::Expression>> Describer::expressions(ValueRange values) const {
  std::vector<rt::Expression> list;
  for (Value v : values) {
    FailureOr<rt::Expression> each = expression(v);
    if (failed(each))
      return failure();
    list.push_back(std::move(*each));
  }
  return list;
}

void Describer::countSent(exec::CollectiveOp op, int64_t times) {
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

void Describer::countSent(const std::string &axes, const std::string &kind, int64_t times, int64_t bytes) {
  Sent &entry = (*sentHere)[axes][kind];
  entry.count += times;
  entry.total += times * bytes;
}

// A workspace is room for a library, which is as large whatever it is for.
int64_t Describer::bytesOf(ValueRange buffers, ArrayRef<int64_t> places, int64_t most) {
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

void Describer::noteChanges(rt::Operation &described, ValueRange buffers, ArrayRef<int64_t> writes) {
  if (llvm::any_of(writes, [&](int64_t argument) {
        return bool(exec::rangeOf(buffers[argument]).root.getVariable());
      }))
    described.changes = writes;
}

static rt::Operation named(rt::Operation::Kind kind, Operation *op) {
  rt::Operation described;
  described.kind = kind;
  described.name = nodeName(op->getLoc()).str();
  return described;
}

// Whole numbers, as the text has them.
static double wholeOf(const std::optional<APFloat> &number) {
  return number ? double(int64_t(number->convertToDouble())) : 0;
}

// What is not the usual.
template <class Op> static void describeWork(Op op, rt::Operation &described) {
  described.profile = op.getKind().value_or("").str();
  if (auto work = op.getWork())
    described.work.kind = rt::parseWorkClass(*work).value_or(rt::WorkClass::Stream);
  described.work.functions = wholeOf(op.getFunctions());
  if (auto bytes = op.getBytesRead())
    described.bytesRead = int64_t(bytes->convertToDouble());
}

FailureOr<rt::Operation> Describer::launch(exec::LaunchOp op) {
  FailureOr<std::vector<rt::Expression>> scalars = expressions(op.getScalars());
  if (failed(scalars))
    return failure();
  rt::Operation described = named(rt::Operation::Kind::Kernel, op);
  described.symbol = kernelPrefix + op.getKernel().str();
  described.args = indices(op.getBuffers());
  described.scalars = std::move(*scalars);
  described.extent = int64_t(op.getExtent());
  described.grain = int64_t(op.getGrain());
  described.bytesRead = bytesOf(op.getBuffers(), op.getReads());
  described.bytesWritten = bytesOf(op.getBuffers(), op.getWrites());
  describeWork(op, described);
  noteChanges(described, op.getBuffers(), op.getWrites());
  return described;
}

FailureOr<rt::Operation> Describer::call(exec::CallOp op, int64_t times) {
  FailureOr<std::vector<rt::Expression>> scalars = expressions(op.getScalars());
  if (failed(scalars))
    return failure();
  totalFlops += (op.getFlops() ? op.getFlops()->convertToDouble() : 0) * double(times);
  const int64_t touched = op.getTouched().value_or(INT64_MAX);
  rt::Operation described = named(rt::Operation::Kind::Call, op);
  described.symbol = op.getFunction().str();
  described.args = indices(op.getBuffers());
  described.attrs = attributes(op.getSettings());
  described.scalars = std::move(*scalars);
  described.work.flops = wholeOf(op.getFlops());
  described.bytesRead = bytesOf(op.getBuffers(), op.getReads(), touched);
  described.bytesWritten = bytesOf(op.getBuffers(), op.getWrites(), touched);
  describeWork(op, described);
  if (auto shape = op.getShape())
    described.work.shape = {double((*shape)[0]), double((*shape)[1]), double((*shape)[2]),
                            double((*shape)[3])};
  noteChanges(described, op.getBuffers(), op.getWrites());
  return described;
}

rt::Operation Describer::collective(exec::CollectiveOp op, int64_t times) {
  countSent(op, times);
  auto args = op.getBuffers();
  rt::Operation described = named(rt::Operation::Kind::Collective, op);
  rt::CollectiveSpec &spec = described.collective;
  rt::CollectiveRequest &request = spec.request;
  request.kind = described.profile = op.getKind().str();
  request.axes = axesOf(cast<dist::AxesAttr>(op.getAxes()).getAxes());
  spec.in = buffers.lookup(args[0]);
  spec.out = buffers.lookup(args[1]);
  spec.scratch = args.size() > 2 ? buffers.lookup(args[2]) : -1;
  request.dtype = dtypeOf(op.getElement());
  request.reduce = op.getReduce().str();
  request.shape = op.getShape();
  request.split = int64_t(op.getSplit());
  request.concat = int64_t(op.getConcat());
  spec.token = int64_t(op.getToken());
  if (auto source = op.getSourceAttr())
    rt::setLayouts(spec, layoutOf(cast<dist::LayoutAttr>(source).getLayout()),
                   layoutOf(cast<dist::LayoutAttr>(op.getTargetAttr()).getLayout()), runtimeMesh);
  else if (auto shift = op.getShift())
    request.shift = int64_t(*shift);
  if (auto root = op.getRoot())
    request.root = int64_t(*root);
  if (auto algorithm = op.getAlgorithm())
    request.algorithm = algorithm->str();
  return described;
}

rt::Operation Describer::send(exec::SendOp op, int64_t times) {
  countSent(pipeline->axis, "send", times, int64_t(op.getBytes()) * mesh.numRanks());
  rt::Operation described = named(rt::Operation::Kind::Send, op);
  described.profile = "send";
  described.message = {int64_t(op.getStage()), buffers.lookup(op.getBuffer()), int64_t(op.getBytes()),
                       int64_t(op.getToken())};
  return described;
}

rt::Operation Describer::receive(exec::RecvOp op) const {
  rt::Operation described = named(rt::Operation::Kind::Receive, op);
  described.profile = "recv";
  described.message = {int64_t(op.getStage()), buffers.lookup(op.getBuffer()), int64_t(op.getBytes()), -1};
  return described;
}

rt::Operation Describer::copy(exec::CopyOp op, int64_t times) {
  rt::Direction direction =
      rt::directionOf(op.getSource().getType().getTier(), op.getTarget().getType().getTier());
  moved[direction] += times * exec::rangeOf(op.getSource()).bytes;
  rt::Operation described = named(rt::Operation::Kind::Copy, op);
  described.profile = "copy";
  described.copy = {buffers.lookup(op.getSource()), buffers.lookup(op.getTarget()), int64_t(op.getToken())};
  return described;
}

rt::Operation Describer::hostCall(exec::HostCallOp op) {
  rt::Operation described = named(rt::Operation::Kind::HostCall, op);
  described.symbol = described.profile = op.getFunction().str();
  described.args = indices(op.getBuffers());
  described.attrs = attributes(op.getSettings());
  described.token = int64_t(op.getToken());
  noteChanges(described, op.getBuffers(), op.getWrites());
  return described;
}

rt::Operation Describer::step(exec::StepOp op) {
  for (int work = 0; work < 3; ++work)
    if (op.getWork() == dist::stringifyPipelineWork(dist::PipelineWork(work)))
      stepsHere->push_back({pipeline::Work(work), int64_t(op.getChunk()), int64_t(op.getMicro())});
  rt::Operation described;
  described.kind = rt::Operation::Kind::Step;
  described.profile = "step";
  described.micro = int64_t(op.getMicro());
  described.name =
      (op.getWork() + " " + Twine(int64_t(op.getChunk())) + "." + Twine(int64_t(op.getMicro()))).str();
  return described;
}

FailureOr<rt::Operation> Describer::operation(Operation &op, int64_t times) {
  return TypeSwitch<Operation *, FailureOr<rt::Operation>>(&op)
      .Case([&](exec::LaunchOp each) { return launch(each); })
      .Case([&](exec::CallOp each) { return call(each, times); })
      .Case([&](exec::CollectiveOp each) { return collective(each, times); })
      .Case([&](exec::SendOp each) { return send(each, times); })
      .Case([&](exec::RecvOp each) { return receive(each); })
      .Case([&](exec::StepOp each) { return step(each); })
      .Case([&](exec::CopyOp each) { return copy(each, times); })
      .Case([&](exec::HostCallOp each) { return hostCall(each); })
      .Case([](exec::WaitOp each) {
        rt::Operation described;
        described.kind = rt::Operation::Kind::Wait;
        described.profile = "wait";
        described.token = int64_t(each.getToken());
        return described;
      })
      .Default([](Operation *other) { return other->emitOpError("has no place in a program description"); });
}

LogicalResult Describer::operations(Block &block, rt::Program &program, int64_t times) {
  for (Operation &op : block) {
    if (isa<exec::BufferOp, exec::PartOp, exec::ScalarOp, dist::ValidOp, dist::BlockStartOp, exec::InputOp,
            exec::OutputOp, func::ReturnOp>(op) ||
        op.hasTrait<OpTrait::ConstantLike>())
      continue;
    if (auto loop = dyn_cast<exec::LoopOp>(op)) {
      rt::Operation begin, end;
      begin.kind = rt::Operation::Kind::Loop;
      begin.times = int64_t(loop.getTimes());
      begin.micro = int64_t(loop.getFirst());
      end.kind = rt::Operation::Kind::End;
      program.operations.push_back(begin);
      if (failed(operations(loop.getBody().front(), program, times * begin.times)))
        return failure();
      program.operations.push_back(end);
      continue;
    }
    FailureOr<rt::Operation> described = operation(op, times);
    if (failed(described))
      return failure();
    program.operations.push_back(std::move(*described));
  }
  return success();
}
