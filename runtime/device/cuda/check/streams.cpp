// Streams, events and copies of the checking driver.
#include "runtime/device/cuda/check/machine.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <thread>

namespace tessera::rt::cuda::check {

bool Stream::run(const std::function<bool()> &reached) {
  if (running)
    return false; // a circle of events
  running = true;
  struct End {
    bool &flag;
    ~End() { flag = false; }
  } end{running};
  while (!work.empty() && !(reached && reached())) {
    if (!work.front()())
      return false;
    work.pop_front();
  }
  return true;
}

void push(Stream &stream, std::function<void()> work) {
  give(stream, [work = std::move(work)] {
    work();
    return true;
  });
}

/// Runs `body` with the GPU's memory open.
template <typename Body> static Status working(Context &context, Body body) {
  if (context.failure != success)
    return context.failure;
  memory().protect(context, PROT_READ | PROT_WRITE);
  Status status = success;
  try {
    status = body() ? success : notReady;
  } catch (const std::exception &error) {
    status = context.failure = fail(launchFailed, error.what());
  }
  memory().protect(context, PROT_NONE);
  return status;
}

bool runsEarly() {
  const char *order = std::getenv("TESSERA_CHECK_ORDER");
  return order && std::string(order) == "early";
}

void runAll(Context &context) {
  working(context, [&] {
    auto left = [&] {
      size_t sum = 0;
      for (const Stream &stream : context.streams)
        sum += stream.work.size();
      return sum;
    };
    for (size_t before = left() + 1; before != left();) {
      before = left();
      for (Stream &stream : context.streams)
        stream.run();
    }
    return true;
  });
}

Status progress(Context &context, Stream &stream) {
  Status status = working(context, [&] {
    if (stream.run())
      return true;
    for (Stream &other : context.streams)
      if (&other != &stream)
        other.run();
    return stream.run();
  });
  // Whom it waits for needs the processor.
  context.patience = status == notReady ? std::min(2 * context.patience + 50, 1000) : 0;
  if (status == notReady)
    std::this_thread::sleep_for(std::chrono::microseconds(context.patience));
  return status;
}

} // namespace tessera::rt::cuda::check

using namespace tessera::rt::cuda;
using namespace tessera::rt::cuda::check;

Status tsr_check_enqueue(Handle handle, const Attempt &attempt, bool early) {
  NEEDS_CONTEXT
  auto &stream = *static_cast<Stream *>(handle);
  give(stream, attempt);
  if (!early || stream.capture || stream.work.size() > 1)
    return success;
  Status status = working(context, [&] { return stream.run(); });
  return status == notReady ? success : status;
}

/// A copy whose end `host` is memory of the host: what is recorded has to find it there in each repetition.
static Status pushHostCopy(Stream &stream, void *to, const void *from, size_t bytes, const void *host) {
  bool isPinned = memory().isPinned(host, bytes);
  if (!isPinned && refusedInCapture(stream, "a copy of the host's memory that is not pinned"))
    return captureUnsupported;
  push(stream, [=] {
    if (isPinned && !memory().isPinned(host, bytes))
      throw tessera::rt::Error("a copy finds pinned memory of the host freed");
    std::memcpy(to, from, bytes);
  });
  return success;
}

extern "C" {

Status cuStreamCreate(Handle *stream, unsigned) {
  NEEDS_CONTEXT
  *stream = &context.streams.emplace_back();
  return success;
}
Status cuStreamDestroy_v2(Handle stream) {
  NEEDS_CONTEXT
  context.streams.remove_if([&](const Stream &other) { return &other == stream; });
  return success;
}
Status cuStreamQuery(Handle stream) {
  NEEDS_CONTEXT
  if (refusedInCapture(*static_cast<Stream *>(stream), "a question whether a stream is done"))
    return captureUnsupported;
  return progress(context, *static_cast<Stream *>(stream));
}
Status cuStreamSynchronize(Handle stream) {
  NEEDS_CONTEXT
  if (refusedInCapture(*static_cast<Stream *>(stream), "a wait for a stream"))
    return captureUnsupported;
  while (true) {
    Status status = progress(context, *static_cast<Stream *>(stream));
    if (status != notReady)
      return status;
  }
}

Status cuLaunchHostFunc(Handle stream, void (*function)(void *), void *argument) {
  NEEDS_CONTEXT
  push(*static_cast<Stream *>(stream), [=] { function(argument); });
  return success;
}

Status cuEventCreate(Handle *event, unsigned) {
  *event = new Event;
  return success;
}
Status cuEventDestroy_v2(Handle event) {
  delete static_cast<Event *>(event);
  return success;
}
Status cuEventRecord(Handle event, Handle stream) {
  NEEDS_CONTEXT
  auto point = std::make_shared<Point>();
  point->stream = static_cast<Stream *>(stream);
  static_cast<Event *>(event)->point = point;
  if (recordInCapture(*point->stream, point))
    return success;
  push(*point->stream, [point] { point->reached = true; });
  return success;
}
Status cuStreamWaitEvent(Handle stream, Handle event, unsigned) {
  NEEDS_CONTEXT
  std::shared_ptr<Point> point = static_cast<Event *>(event)->point;
  if (!point)
    return fail(invalidValue, "a stream waits for an event that was never recorded");
  if (point->isCaptured || static_cast<Stream *>(stream)->capture)
    return awaitInCapture(*static_cast<Stream *>(stream), point);
  static_cast<Stream *>(stream)->work.push_back([point] {
    if (!point->reached)
      point->stream->run([&] { return point->reached; });
    return point->reached;
  });
  return success;
}
Status cuEventQuery(Handle event) {
  NEEDS_CONTEXT
  std::shared_ptr<Point> point = static_cast<Event *>(event)->point;
  if (point && point->isCaptured)
    return captureUnsupported;
  return !point || point->reached ? success : notReady;
}

Status cuMemsetD8Async(DevicePointer to, unsigned char value, size_t count, Handle stream) {
  NEEDS_CONTEXT
  if (!memory().holds(context, to, count))
    return fail(invalidValue, "memory that is set lies outside of every allocation");
  push(*static_cast<Stream *>(stream), [=] { std::memset(reinterpret_cast<void *>(to), value, count); });
  return success;
}
Status cuMemcpyHtoDAsync_v2(DevicePointer to, const void *from, size_t bytes, Handle stream) {
  NEEDS_CONTEXT
  if (!memory().holds(context, to, bytes))
    return fail(invalidValue, "a copy's target lies outside of every allocation");
  return pushHostCopy(*static_cast<Stream *>(stream), reinterpret_cast<void *>(to), from, bytes, from);
}
Status cuMemcpyDtoHAsync_v2(void *to, DevicePointer from, size_t bytes, Handle stream) {
  NEEDS_CONTEXT
  if (!memory().holds(context, from, bytes))
    return fail(invalidValue, "a copy's source lies outside of every allocation");
  return pushHostCopy(*static_cast<Stream *>(stream), to, reinterpret_cast<void *>(from), bytes, to);
}
Status cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, size_t bytes, Handle stream) {
  NEEDS_CONTEXT
  if (!memory().holds(context, from, bytes) || !memory().holds(context, to, bytes))
    return fail(invalidValue, "a copy inside of the GPU reaches outside of every allocation");
  push(*static_cast<Stream *>(stream),
       [=] { std::memcpy(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), bytes); });
  return success;
}
}
