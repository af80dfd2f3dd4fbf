// See engine_communicator.h.
#include "runtime/program/engine_communicator.h"

#include <cstring>
#include <utility>

namespace tessera::rt {

/// Of the scratch of collectives.
static constexpr size_t scratchAlignment = 64;

Communicator::Handle EngineCommunicator::prepareCollective(const Collective &collective, void *in, void *out,
                                                           void *scratch) {
  Operation &operation = operations.emplace_back();
  operation.collective = &collective;
  operation.in = operation.hostIn = in;
  operation.out = operation.hostOut = out;
  operation.hostScratch = scratch;
  if (!device.isHost()) {
    operation.copyIn.resize(size_t(collective.inBytes()));
    operation.copyOut.resize(size_t(collective.outBytes()));
    size_t room = size_t(collective.scratchBytes()) + scratchAlignment;
    operation.copyScratch.resize(room);
    operation.hostIn = operation.copyIn.data();
    operation.hostOut = operation.copyOut.data();
    operation.hostScratch = operation.copyScratch.data();
    std::align(scratchAlignment, 1, operation.hostScratch, room);
  }
  return operations.size() - 1;
}

Communicator::Handle EngineCommunicator::prepareMessage(const Message &message, void *buffer, bool receives) {
  Operation &operation = operations.emplace_back();
  operation.message = message;
  operation.receives = receives;
  (receives ? operation.out : operation.in) = buffer;
  operation.hostIn = operation.in;
  operation.hostOut = operation.out;
  if (!device.isHost()) {
    std::vector<char> &copy = receives ? operation.copyOut : operation.copyIn;
    copy.resize(size_t(message.bytes));
    (receives ? operation.hostOut : operation.hostIn) = copy.data();
  }
  if (receives) {
    operation.program = programs.size() - 1;
    Source &source = programs.back()[message.peer];
    if (!source.receives.empty()) // a step's first message is none that follows another
      reserve(aheads[message.peer], message.bytes);
    source.receives.push_back(operations.size() - 1);
  }
  return operations.size() - 1;
}

void EngineCommunicator::reserve(Ahead &ahead, int64_t bytes) {
  if (bytes <= ahead.bytes)
    return;
  if (device.isHost()) {
    if (ahead.data)
      memory.release(ahead.data);
    ahead.data = memory.allocate(bytes, Category::Communication);
  } else {
    ahead.onHost = device.allocateHost(bytes);
    ahead.data = ahead.onHost.get();
  }
  ahead.bytes = bytes;
}

void EngineCommunicator::receive(Handle handle) {
  Operation &operation = operations[handle];
  Source &source = programs[operation.program][operation.message.peer];
  void *ahead = aheads[operation.message.peer].data;
  if (source.receives[source.done] != handle)
    throw Error("messages of rank ", operation.message.peer,
                " are received in another order than the program has them");
  if (source.token >= 0) {
    engine.waitReceive(std::exchange(source.token, -1));
    std::memcpy(operation.hostOut, ahead, size_t(operation.message.bytes));
  } else {
    engine.receive(operation.message, operation.hostOut);
  }
  source.done = (source.done + 1) % source.receives.size();
  if (source.done == 0 || !engine.receivesAhead())
    return;
  const Message &next = operations[source.receives[source.done]].message;
  source.token = engine.startReceive(next, ahead);
}

void EngineCommunicator::fetch(Operation &operation) {
  if (!operation.copyIn.empty())
    device.download(operation.hostIn, operation.in, int64_t(operation.copyIn.size()));
}

void EngineCommunicator::store(Operation &operation) {
  if (!operation.copyOut.empty() && operation.out)
    device.upload(operation.out, operation.hostOut, int64_t(operation.copyOut.size()));
}

void EngineCommunicator::start(Handle handle) {
  Operation &operation = operations[handle];
  fetch(operation);
  if (operation.collective)
    operation.token =
        engine.start(*operation.collective, operation.hostIn, operation.hostOut, operation.hostScratch);
  else if (!operation.receives)
    operation.token = engine.startSend(operation.message, operation.hostIn);
}

void EngineCommunicator::wait(Handle handle) {
  Operation &operation = operations[handle];
  if (operation.collective)
    engine.wait(operation.token);
  else if (operation.receives)
    receive(handle);
  else
    engine.waitSend(operation.token);
  store(operation);
}

void EngineCommunicator::run(Handle handle) {
  Operation &operation = operations[handle];
  if (!operation.collective)
    return Communicator::run(handle);
  fetch(operation);
  engine.run(*operation.collective, operation.hostIn, operation.hostOut, operation.hostScratch);
  store(operation);
}

} // namespace tessera::rt
