// See nccl_communicator.h.
#include "runtime/comm/nccl/nccl_communicator.h"

#include <cstdlib>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

namespace tessera::rt::nccl {
namespace {

/// For this long a rank waits for its GPU before it takes a peer for lost: TESSERA_COMM_TIMEOUT, in seconds.
double chosenTimeout() {
  const char *text = std::getenv("TESSERA_COMM_TIMEOUT");
  char *end = nullptr;
  double seconds = text ? std::strtod(text, &end) : 600;
  if (!(seconds > 0) || (text && *end))
    throw Error("TESSERA_COMM_TIMEOUT is '", text, "', expected seconds, a number above 0");
  return seconds;
}

} // namespace

NcclCommunicator::NcclCommunicator(Engine &engine, cuda::CudaDevice &device)
    : engine(engine), device(device), nccl(Library::get()), copyRuns(device.libraryFunction("tsr_copy_runs")),
      stream(device.api()), timeout(chosenTimeout()) {
  device.setWatch([this](double seconds) { watch(seconds); });
}

NcclCommunicator::~NcclCommunicator() {
  giveUp();
  device.setWatch({});
  // The others may still be at their last operation, unless this rank fails: then nobody waits for anybody.
  bool together = !aborted && std::uncaught_exceptions() == 0;
  auto end = Engine::Clock::now() + std::chrono::seconds(10);
  for (auto &[name, group] : groups) {
    if (!group->comm || aborted)
      continue;
    Status status = together ? inProgress : remoteError;
    if (together)
      nccl.finalize(group->comm);
    while (status == inProgress && Engine::Clock::now() < end)
      if (nccl.asyncError(group->comm, &status) != success)
        status = remoteError;
    status == success ? nccl.destroy(group->comm) : nccl.abort(group->comm);
  }
}

Communicator::Handle NcclCommunicator::add(Operation operation) {
  operation.ready = std::make_unique<cuda::Event>(device.api());
  operation.done = std::make_unique<cuda::Event>(device.api());
  operations.push_back(std::make_unique<Operation>(std::move(operation)));
  return operations.size() - 1;
}

Communicator::Handle NcclCommunicator::prepareCollective(const Collective &collective, void *in, void *out,
                                                         void *scratch) {
  if (collectiveTraits(collective.size.kind).reduces && collective.size.ranks > 1)
    reducedType(collective.dtype);
  Group *members = collective.size.ranks > 1 ? &group(collective.group.ranks, false) : nullptr;
  return add({&collective, {}, false, in, out, scratch, members, nullptr, nullptr});
}

Communicator::Handle NcclCommunicator::prepareMessage(const Message &message, void *buffer, bool receives) {
  int me = engine.rank();
  Group &pair = group(receives ? std::vector{message.peer, me} : std::vector{me, message.peer}, true);
  return add({nullptr, message, receives, buffer, buffer, nullptr, &pair, nullptr, nullptr});
}

void NcclCommunicator::start(Handle handle) {
  Operation &operation = *operations[handle];
  cuda::Handle on = operation.group ? operation.group->stream : stream.handle();
  operation.ready->record(device.computeStream());
  operation.ready->await(on);
  issue(operation);
  operation.done->record(on);
  operation.started = true;
  count(operation);
  if (isRecording)
    recordings.back().push_back(handle);
}

size_t NcclCommunicator::beginRecording() {
  isRecording = true;
  recordings.emplace_back();
  return recordings.size() - 1;
}

void NcclCommunicator::repeatRecording(size_t recording) {
  isRecording = false;
  for (Handle handle : recordings[recording])
    count(*operations[handle]);
}

void NcclCommunicator::count(const Operation &operation) {
  if (operation.collective && operation.collective->size.ranks > 1 &&
      operation.collective->size.elements() > 0)
    engine.count(operation.collective->axes, operation.collective->kind, operation.collective->sentBytes());
  else if (!operation.collective && !operation.receives)
    engine.count(operation.message.axes, "send", operation.message.bytes);
}

void NcclCommunicator::wait(Handle handle) { operations[handle]->done->await(device.computeStream()); }

void NcclCommunicator::giveUp() noexcept {
  if (aborted)
    return;
  // The events of a recording tell nothing of its repetitions; those are the stream's last work.
  bool idle = recordings.empty() || device.api().streamQuery(device.computeStream()) != cuda::notReady;
  for (const auto &operation : operations)
    idle = idle && (!operation->started || operation->done->isReached());
  if (idle) {
    for (auto &[name, group] : groups)
      for (void *registration : std::exchange(group->registrations, {}))
        nccl.deregisterMemory(group->comm, registration);
    return;
  }
  aborted = true;
  // Aborting ends the operations on the GPU first, and then waits until no graph has any of the
  // communicator's in it; dropping a graph waits until the GPU is done with it.
  std::vector<std::jthread> aborting;
  for (auto &[name, group] : groups)
    if (group->comm)
      aborting.emplace_back([this, comm = group->comm] { nccl.abort(comm); });
  device.dropRecordings();
}

std::string NcclCommunicator::describe(const Operation &operation) const {
  if (operation.collective)
    return operation.collective->kind + " over '" + operation.collective->axes + "'";
  return std::string(operation.receives ? "message from" : "message to") + " rank " +
         std::to_string(operation.message.peer);
}

void NcclCommunicator::checkGroups() {
  try {
    for (const auto &[name, group] : groups) {
      Status status = success;
      if (group->comm && !aborted)
        nccl.check(nccl.asyncError(group->comm, &status), group->comm, "asking NCCL for errors");
      nccl.check(status, group->comm, "NCCL has failed");
    }
  } catch (const Error &) {
    // It learns that a rank is lost, but not which; the ranks' own connections do, often a little later.
    for (int i = 0; i < 20; ++i) {
      engine.check();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    throw;
  }
}

void NcclCommunicator::watch(double seconds) {
  auto stop = [&](const std::string &why) {
    std::string waiting;
    for (const auto &operation : operations)
      if (waiting.empty() && operation->started && !operation->done->isReached())
        waiting = "; it waits in the " + describe(*operation);
    giveUp();
    throw Error(why, waiting);
  };
  try {
    engine.check();
    checkGroups();
  } catch (const Error &error) {
    giveUp();
    throw;
  }
  if (seconds > timeout)
    stop("the GPU of rank " + std::to_string(engine.rank()) + " is not done after " +
         std::to_string(int64_t(seconds)) + " seconds: a peer may hang (TESSERA_COMM_TIMEOUT allows more)");
}

void NcclCommunicator::waitUntilTaken(Group &group, Status result, const std::string &what) {
  nccl.check(result, group.comm, what);
  auto begin = Engine::Clock::now();
  for (Status status = inProgress; true;) {
    nccl.check(nccl.asyncError(group.comm, &status), group.comm, what);
    nccl.check(status, group.comm, what);
    if (status == success)
      return;
    watch(std::chrono::duration<double>(Engine::Clock::now() - begin).count());
  }
}

} // namespace tessera::rt::nccl
