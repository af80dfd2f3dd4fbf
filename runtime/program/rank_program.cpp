// See rank_program.h. Loops are unrolled into (operation, microbatch) pairs only in the walk: every prepared
// operation holds its scalars for each microbatch.
#include "runtime/program/rank_program.h"

#include "runtime/core/error.h"

#include <algorithm>
#include <cstring>

namespace tessera::rt {

struct RankProgram::Prepared {
  const Operation *op;
  /// Of a kernel or a library call.
  Work work;
  std::vector<void *> args;
  /// Evaluated scalars, one row a microbatch; a single row when they do not depend on it.
  std::vector<std::vector<int64_t>> scalars;
  /// Whether some depend on inputs, and so are evaluated before every step.
  bool readsInputs = false;
  /// Of a collective: checked.
  std::unique_ptr<Collective> collective;
  /// Of a collective, a send or a receive, and of a wait for one.
  Communicator::Handle communication = 0;
  /// Of a copy or a function of the host and of a wait for one; and who hears of it in a trace.
  std::shared_ptr<SideWork> side;
  SideWork::Observer observer;
  /// What has to be saved before it, of what it changes.
  std::shared_ptr<SideWork> save;

  const int64_t *scalarsAt(int64_t micro) const {
    return scalars.empty() ? nullptr : scalars[scalars.size() == 1 ? 0 : size_t(micro)].data();
  }
};

RankProgram::RankProgram(const Description &description, const Program &program, int rank,
                         Communicator &communicator, Device &device, const Arena &arena, Slots *slots,
                         int slot, const RankProgram *other)
    : description(description), program(program), at(description.mesh.coordinates(rank)),
      communicator(communicator), device(device), arena(arena), slots(slots), slot(slot),
      ends(other ? other->ends : std::make_shared<Ends>()) {
  communicator.beginProgram();
  if (!other)
    prepareEnds();
  for (const Operation &op : program.operations) {
    try {
      prepare(op);
    } catch (const Error &error) {
      throw Error(op.name.empty() ? "operation " + op.profile : "operation '" + op.name + "'", ": ",
                  error.what());
    }
  }
  prepareSaves();
}

void RankProgram::prepareEnds() {
  for (const ProgramInput &input : program.inputs) {
    void *place = bufferData(input.buffer);
    ends->inlets.push_back(place ? device.makeInlet(place, program.buffers[size_t(input.buffer)].bytes)
                                 : nullptr);
    ends->filled.push_back(place != nullptr);
    ends->numbers.push_back(0);
  }
  if (device.isHost())
    return;
  for (const ProgramOutput &output : program.outputs) {
    const int64_t bytes = output.buffer < 0 ? 0 : program.buffers[size_t(output.buffer)].bytes;
    ends->hostOutputs.push_back({device.allocateHost(bytes), bytes});
  }
}

void RankProgram::prepareSaves() {
  if (!slots)
    return;
  const auto &all = slots->plan().saved();
  for (const auto &[op, ranges] : all) {
    std::vector<Device::Piece> pieces;
    for (const VariableRange &range : ranges)
      pieces.push_back({slots->address(range.tier, range.begin, slot),
                        arena.addressOf(range.tier, range.begin), range.end - range.begin});
    // They are saved one after the other.
    const bool isLast = op == all.rbegin()->first;
    operations[op].save =
        device.prepareSave(std::move(pieces), isLast ? [this] { slots->saved(); } : std::function<void()>());
  }
}

RankProgram::~RankProgram() {
  // Collectives that a failed step has left under way use its buffers.
  communicator.giveUp();
  // So does what is done beside it, which ends here, before those that hear of them.
  for (Prepared &prepared : operations) {
    prepared.side.reset();
    prepared.save.reset();
  }
}

void *RankProgram::bufferData(int64_t index) const { return arena.address(program, index); }

void *RankProgram::bufferData(const Operation &op, int64_t index) const {
  const bool isNext = slots && index >= 0 && slots->plan().usesNext(size_t(numberOf(op)), index);
  return arena.address(program, index, isNext ? slots->next(slot) : slot);
}

void RankProgram::prepareScalars(const Operation &op, Prepared &prepared) const {
  if (op.scalars.empty())
    return;
  bool varies = std::any_of(op.scalars.begin(), op.scalars.end(), [](const Expression &expression) {
    return std::any_of(expression.axes.begin(), expression.axes.end(),
                       [](const SubAxis &axis) { return axis.name == microAxisName; });
  });
  prepared.readsInputs = std::any_of(op.scalars.begin(), op.scalars.end(), [](const Expression &expression) {
    return expression.kind == Expression::Kind::Input;
  });
  prepared.scalars.assign(size_t(varies ? description.micro : 1), std::vector<int64_t>(op.scalars.size()));
  evaluateScalars(prepared);
}

void RankProgram::evaluateScalars(Prepared &prepared) const {
  Coordinates where = at;
  for (size_t micro = 0; micro < prepared.scalars.size(); ++micro) {
    where.micro = description.mesh.microbatchAt(int64_t(micro));
    for (size_t i = 0; i < prepared.op->scalars.size(); ++i)
      prepared.scalars[micro][i] = evaluate(prepared.op->scalars[i], description.mesh, where, ends->numbers);
  }
}

void RankProgram::prepare(const Operation &op) {
  Prepared prepared;
  prepared.op = &op;
  for (int64_t arg : op.args)
    prepared.args.push_back(bufferData(op, arg));
  prepareScalars(op, prepared);
  if (op.kind == Operation::Kind::Kernel) {
    prepared.work =
        device.prepareKernel({op.symbol, prepared.args, int64_t(op.scalars.size()), op.extent, op.grain});
  } else if (op.kind == Operation::Kind::Call) {
    prepared.work = device.prepareCall(siteOf(op, prepared));
  } else if (op.kind == Operation::Kind::Collective) {
    prepareCollective(op, prepared);
  } else if (op.kind == Operation::Kind::Send || op.kind == Operation::Kind::Receive) {
    prepareMessage(op, prepared);
  } else if (op.kind == Operation::Kind::Copy) {
    prepareCopy(op, prepared);
  } else if (op.kind == Operation::Kind::HostCall) {
    prepareHostCall(op, prepared);
  } else if (op.kind == Operation::Kind::Wait) {
    prepareWait(op, prepared);
  }
  operations.push_back(std::move(prepared));
}

LibrarySite RankProgram::siteOf(const Operation &op, const Prepared &prepared) const {
  LibrarySite site{op.symbol, *op.attrs, prepared.args, {}, int64_t(op.scalars.size())};
  for (int64_t arg : op.args) {
    const BufferRange &buffer = program.buffers[size_t(arg)];
    site.argBytes.push_back(buffer.bytesFor(device.threads()));
    if (buffer.isBehind(device.threads()))
      site.attrs["workspace"] = site.argBytes.back();
  }
  if (slots && slots->plan().isApart(size_t(numberOf(op)))) {
    site.attrs["apart"] = true;
    for (int64_t change : op.changes) {
      site.argBytes.push_back(site.argBytes[size_t(change)]);
      site.args.push_back(arena.address(program, op.args[size_t(change)], slots->next(slot)));
    }
  }
  return site;
}

void RankProgram::prepareCopy(const Operation &op, Prepared &prepared) {
  const BufferRange &from = program.buffers[size_t(op.copy.from)];
  Direction direction = directionOf(from.tier, program.buffers[size_t(op.copy.to)].tier);
  prepared.side =
      device.prepareCopy(bufferData(op, op.copy.to), bufferData(op, op.copy.from), from.bytes, direction);
  using Stream = TraceRecorder::Stream;
  static constexpr PerDirection<Stream> rows = {Stream::ToDevice, Stream::ToHost, Stream::FromNvme,
                                                Stream::ToNvme};
  prepared.observer = observerOf(op, rows[direction]);
}

void RankProgram::prepareHostCall(const Operation &op, Prepared &prepared) {
  prepared.side = device.prepareHostCall(siteOf(op, prepared));
  prepared.observer = observerOf(op, TraceRecorder::Stream::Host);
}

SideWork::Observer RankProgram::observerOf(const Operation &op, TraceRecorder::Stream stream) {
  return [this, &op, stream](SideWork::Clock::time_point begin, SideWork::Clock::time_point end) {
    trace->add(op.name, op.profile, stream, traceSeconds(begin), traceSeconds(end));
  };
}

void RankProgram::prepareWait(const Operation &op, Prepared &prepared) const {
  // Tokens may be used again: the last who started it is meant.
  auto started = std::find_if(operations.rbegin(), operations.rend(),
                              [&](const Prepared &other) { return other.op->startedToken() == op.token; });
  prepared.communication = started->communication;
  prepared.side = started->side;
}

int64_t RankProgram::numberOf(const Operation &op) const { return &op - program.operations.data(); }

void RankProgram::prepareCollective(const Operation &op, Prepared &prepared) const {
  const CollectiveSpec &spec = op.collective;
  prepared.collective =
      std::make_unique<Collective>(makeCollective(spec.request, description.mesh, description.mesh.rank(at)));
  prepared.collective->operation = numberOf(op);
  prepared.communication = communicator.prepareCollective(
      *prepared.collective, bufferData(op, spec.in), bufferData(op, spec.out), bufferData(op, spec.scratch));
}

void RankProgram::prepareMessage(const Operation &op, Prepared &prepared) const {
  const auto &axes = description.mesh.axes();
  Coordinates there = at;
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i].first == description.pipelineAxis)
      there.ofAxis[i] = op.message.stage;
  prepared.communication = communicator.prepareMessage(
      {int(description.mesh.rank(there)), op.message.bytes, description.pipelineAxis, numberOf(op)},
      bufferData(op, op.message.buffer), op.kind == Operation::Kind::Receive);
}

void *RankProgram::inputData(size_t index) {
  ends->filled[index] = ends->inlets[index] != nullptr;
  if (program.inputs[index].isScalar())
    return &ends->numbers[index];
  return ends->inlets[index] ? ends->inlets[index]->memory() : nullptr;
}

const void *RankProgram::outputData(size_t index) const {
  const void *data = bufferData(program.outputs[index].buffer);
  return data && !device.isHost() ? ends->hostOutputs[index].memory.get() : data;
}

void RankProgram::sendInputs() {
  for (size_t i = 0; i < ends->inlets.size(); ++i)
    if (ends->filled[i]) {
      if (program.inputs[i].isScalar())
        std::memcpy(ends->inlets[i]->memory(), &ends->numbers[i],
                    size_t(dtypeBytes(program.inputs[i].dtype)));
      ends->inlets[i]->send();
      ends->filled[i] = false;
    }
}

void RankProgram::start() {
  double begin = traceSeconds();
  sendInputs();
  for (const std::unique_ptr<Inlet> &inlet : ends->inlets)
    if (inlet)
      inlet->take();
  for (Prepared &prepared : operations)
    if (prepared.readsInputs)
      evaluateScalars(prepared);
  runOrRepeat();
  for (size_t i = 0; i < ends->hostOutputs.size(); ++i)
    device.startDownload(ends->hostOutputs[i].memory.get(), bufferData(program.outputs[i].buffer),
                         ends->hostOutputs[i].bytes);
  handedOver = traceSeconds() - begin;
}

void RankProgram::runOrRepeat() {
  bool communicates = std::any_of(operations.begin(), operations.end(), [](const Prepared &prepared) {
    return prepared.op->kind == Operation::Kind::Collective || prepared.op->kind == Operation::Kind::Send ||
           prepared.op->kind == Operation::Kind::Receive;
  });
  // What is recorded has the numbers of that step in it.
  bool readsInputs = std::any_of(operations.begin(), operations.end(),
                                 [](const Prepared &prepared) { return prepared.readsInputs; });
  // Who looks at single operations gets them one by one.
  if (device.isHost() || trace || profile || observer || readsInputs || ++steps == 1 ||
      (communicates && !communicator.isRecordable()))
    return run();
  if (recording) {
    communicator.repeatRecording(recordedCommunication);
  } else {
    recordedCommunication = communicator.beginRecording();
    recording = device.record([&] { run(); });
    if (!recording)
      return run();
  }
  recording(nullptr);
}

void RankProgram::run() {
  for (Prepared &prepared : operations)
    if (prepared.save)
      prepared.save->start();
  size_t loopBegin = 0;
  int64_t micro = 0, end = 0;
  for (size_t i = 0; i < operations.size(); ++i) {
    Prepared &prepared = operations[i];
    if (prepared.op->kind == Operation::Kind::Loop) {
      loopBegin = i;
      micro = prepared.op->micro;
      end = micro + prepared.op->times;
      if (end == micro)
        while (operations[i].op->kind != Operation::Kind::End)
          ++i;
    } else if (prepared.op->kind == Operation::Kind::End) {
      if (++micro < end)
        i = loopBegin;
      else
        micro = 0;
    } else if (prepared.op->kind == Operation::Kind::Step) {
      micro = prepared.op->micro;
    } else if (trace || profile || observer) {
      observe(prepared, micro);
    } else {
      execute(prepared, micro);
    }
  }
}

void RankProgram::observe(Prepared &prepared, int64_t micro) {
  const Operation &op = *prepared.op;
  double help = device.helpSeconds(), begin = traceSeconds();
  execute(prepared, micro);
  device.finish(); // a GPU has only been told of it
  double end = traceSeconds();
  if (trace)
    trace->add(op.name, op.profile, TraceRecorder::Stream::Compute, begin, end);
  if (observer)
    observer(op, end - begin);
  if (!profile)
    return;
  if (prepared.side)
    profile->addCopyWait(end - begin);
  else if (op.kind == Operation::Kind::Collective || op.kind == Operation::Kind::Wait)
    profile->addWait(end - begin);
  else
    profile->addCompute(
        op.profile, end - begin,
        device.isHost() ? double(device.threads() - 1) * (end - begin) - (device.helpSeconds() - help) : 0);
}

void RankProgram::execute(Prepared &prepared, int64_t micro) {
  const Operation &op = *prepared.op;
  if (prepared.save)
    prepared.save->wait();
  switch (op.kind) {
  case Operation::Kind::Kernel:
  case Operation::Kind::Call:
    prepared.work(prepared.scalarsAt(micro));
    break;
  case Operation::Kind::Collective:
    if (op.collective.token >= 0)
      communicator.start(prepared.communication);
    else
      communicator.run(prepared.communication);
    break;
  case Operation::Kind::Send:
    communicator.start(prepared.communication);
    break;
  case Operation::Kind::Receive:
    communicator.run(prepared.communication);
    break;
  case Operation::Kind::Copy:
  case Operation::Kind::HostCall:
    prepared.side->start(trace ? &prepared.observer : nullptr);
    break;
  case Operation::Kind::Wait:
    if (prepared.side)
      prepared.side->wait();
    else
      communicator.wait(prepared.communication);
    break;
  case Operation::Kind::Loop:
  case Operation::Kind::End:
  case Operation::Kind::Step:
    break;
  }
}

} // namespace tessera::rt
