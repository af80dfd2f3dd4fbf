// Stands in for libcuda.so.1 in tests: executes the twins of kernels on the host and refuses what a GPU would
// fail at.
//
// - Work of a stream runs only when somebody waits for the stream, as late as a GPU may do it: a result that
// is read, or a source that is
//   overwritten, without waiting shows as a wrong value. With TESSERA_CHECK_ORDER=early it runs as early as
//   it may: a target that is overwritten while somebody reads it shows only so.
// - Device memory is closed to the host, new memory is full of NaN, and freed memory stays closed: touching
// any of them from outside of a
//   kernel, or a byte beyond an allocation's pages, ends the process.
// - Streams are independent: one runs ahead of another, or stays behind, unless an event orders them.
// - A kernel's parameters, block size and name are checked against its PTX; threads that miss a shuffle or
// barrier are an error.
//
// Variables: TESSERA_CHECK_TWINS names the program's twins (tessera compile --host-twins),
// TESSERA_CHECK_ORDER is early or late, TESSERA_CHECK_GPUS, _MEMORY, _PINNED (bytes of the host), _MODULE
// (the bytes of it that a module takes), _CAPABILITY and _VERSION say what machine it is.
#pragma once

#include "runtime/core/error.h"
#include "runtime/device/cuda/driver.h"

#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace tessera::rt::cuda::check {

enum : Status {
  success = 0,
  invalidValue = 1,
  invalidImage = 200,
  invalidContext = 201,
  notFound = 500,
  launchFailed = 719,
  captureUnsupported = 900,
  captureUnjoined = 904
};

/// Does a piece of work, or tries to: false when it has to wait for something and is to be tried again.
using Attempt = std::function<bool()>;

struct Capture;

struct Stream {
  std::deque<Attempt> work;
  std::shared_ptr<Capture> capture; ///< while the stream's work goes into a graph
  bool running = false;
  /// Works until all is done, or `reached` says that it is enough, or an attempt has to wait. Returns whether
  /// it did not have to wait.
  bool run(const std::function<bool()> &reached = {});
};

/// What an event was recorded for: a point in a stream.
struct Point {
  Stream *stream;
  bool reached = false;
  bool isCaptured = false; ///< whether it is one in a graph,
  std::weak_ptr<Capture>
      capture; ///< and which, while there is somebody who has the graph, which has its points
};

/// A graph: per stream that took part its work in order, with the points that it reaches and waits for.
struct Capture {
  struct Node {
    Attempt attempt;
    std::shared_ptr<Point> reaches, awaits;
    size_t number; ///< in the order of the recording
  };
  struct Branch {
    Stream *stream;
    std::vector<Node> nodes;
    /// Of each other branch: how many of its nodes this one comes after.
    std::map<Stream *, size_t> after;
  };
  std::list<Branch> branches; // the first is the origin's
  size_t count = 0;           ///< of nodes
  std::map<const Point *, std::map<Stream *, size_t>> pasts;
  bool broken = false;
  Branch &of(Stream *stream);
  void add(Stream *stream, Attempt attempt, std::shared_ptr<Point> reaches = {},
           std::shared_ptr<Point> awaits = {}) {
    of(stream).nodes.push_back({std::move(attempt), std::move(reaches), std::move(awaits), count++});
  }
};
struct Event {
  std::shared_ptr<Point> point;
};

/// A GPU, as the threads see it that made it current: one thread at a time works on it.
struct Context {
  int number = 0;
  std::recursive_mutex mutex;
  std::list<Stream> streams;
  size_t modules = 0;       ///< loaded, each of TESSERA_CHECK_MODULE bytes
  Status failure = success; ///< sticky, as after a fault of a real GPU
  int patience = 0;         ///< microseconds until the next attempt at work that waits
};

struct Allocation {
  size_t bytes, mapped;
  Context *context;
  bool live;
  bool byAddress = false; ///< reserved and mapped, not allocated
};

/// Device memory is closed to the host but while a stream of its GPU works.
struct Memory {
  std::mutex mutex;
  std::map<DevicePointer, Allocation> allocations;
  /// What is created and not released yet, by handle; and bytes of addresses that are reserved.
  struct Created {
    size_t bytes;
    const Context *context;
  };
  std::map<uint64_t, Created> created;
  std::map<DevicePointer, size_t> reserved;
  /// Of the host: bytes by address.
  std::map<uintptr_t, size_t> pinned;
  std::set<uintptr_t> registered; ///< of those, what is not the driver's own
  uint64_t handles = 0;
  size_t used(const Context &context);
  size_t free(const Context &context);
  /// Whether [pointer, pointer + bytes) lies in one live allocation of the context.
  bool holds(const Context &context, DevicePointer pointer, size_t bytes);
  /// Whether [pointer, pointer + bytes) is pinned memory of the host.
  bool isPinned(const void *pointer, size_t bytes);
  void protect(const Context &context, int mode);
};
Memory &memory();

Context *&currentContext();
size_t setting(const char *name, size_t standard);
inline size_t moduleBytes() { return setting("TESSERA_CHECK_MODULE", 4096); }
/// Says what is wrong and returns the status.
Status fail(Status status, const std::string &what);

/// Whether work runs as early as it may, or as late.
bool runsEarly();
/// Hands work to a stream, or to the graph that it is recorded in.
void give(Stream &stream, Attempt attempt);
/// The event's point, or a wait for one, in a graph. The first: whether the stream is recorded.
bool recordInCapture(Stream &stream, const std::shared_ptr<Point> &point);
Status awaitInCapture(Stream &stream, const std::shared_ptr<Point> &point);
/// Whether what a stream is asked is impossible while it is recorded, which is said.
bool refusedInCapture(Stream &stream, const char *what);
/// Tries the work of a stream, and where that has to wait, of the GPU's other streams. Returns success,
/// notReady, or what has failed.
Status progress(Context &context, Stream &stream);
/// Goes on with the work of all streams as far as events let it. What fails does so again when somebody
/// waits.
void runAll(Context &context);
/// Hands work to a stream that runs as late as a GPU may do it: when somebody waits for it.
void push(Stream &stream, std::function<void()> work);

} // namespace tessera::rt::cuda::check

/// Without a context a thread has no GPU.
#define NEEDS_CONTEXT                                                                                        \
  if (!currentContext())                                                                                     \
    return fail(invalidContext, "this thread has no context");                                               \
  Context &context = *currentContext();                                                                      \
  std::lock_guard lock(context.mutex);

extern "C" {
/// For libraries that check: hands work to a stream. `early`: it is done as early as a GPU may do it, at once
/// where the stream has nothing else to do; else as late.
tessera::rt::cuda::Status tsr_check_enqueue(tessera::rt::cuda::Handle stream,
                                            const tessera::rt::cuda::check::Attempt &attempt, bool early);
/// Whether this thread's GPU has this memory.
bool tsr_check_holds(const void *pointer, size_t bytes);
/// The number of this thread's GPU, -1 for none.
int tsr_check_gpu();
}
