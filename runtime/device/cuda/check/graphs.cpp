// Graphs of the checking driver: streams whose work is recorded, and its repetition. A graph's streams run
// ahead of each other as far as its events let them, those that were joined to the recording first; or, where
// all is to run as early as it may, in the order of the recording.
#include "runtime/device/cuda/check/machine.h"

#include <algorithm>

namespace tessera::rt::cuda::check {

Capture::Branch &Capture::of(Stream *stream) {
  for (Branch &branch : branches)
    if (branch.stream == stream)
      return branch;
  branches.push_back({stream, {}, {}});
  return branches.back();
}

void give(Stream &stream, Attempt attempt) {
  if (stream.capture)
    return stream.capture->add(&stream, std::move(attempt));
  stream.work.push_back(std::move(attempt));
  if (runsEarly())
    runAll(*currentContext());
}

bool refusedInCapture(Stream &stream, const char *what) {
  if (!stream.capture)
    return false;
  stream.capture->broken = true;
  fail(captureUnsupported, std::string(what) + " while its work is recorded in a graph");
  return true;
}

bool recordInCapture(Stream &stream, const std::shared_ptr<Point> &point) {
  if (!stream.capture)
    return false;
  Capture::Branch &branch = stream.capture->of(&stream);
  point->isCaptured = true;
  point->capture = stream.capture;
  stream.capture->add(&stream, {}, point);
  stream.capture->pasts[point.get()] = branch.after;
  stream.capture->pasts[point.get()][&stream] = branch.nodes.size();
  return true;
}

Status awaitInCapture(Stream &stream, const std::shared_ptr<Point> &point) {
  std::shared_ptr<Capture> capture = point->capture.lock();
  if (stream.capture && stream.capture != capture) {
    stream.capture->broken = true;
    return fail(captureUnsupported, "a stream that is recorded in a graph waits for something outside of it");
  }
  if (!capture || point->stream->capture != capture)
    return fail(captureUnsupported, "a stream waits for an event that was recorded in a graph");
  // Waiting for an event of a recording joins it.
  stream.capture = capture;
  Capture::Branch &branch = capture->of(&stream);
  capture->add(&stream, {}, {}, point);
  for (auto [other, count] : stream.capture->pasts[point.get()])
    branch.after[other] = std::max(branch.after[other], count);
  return success;
}

/// One repetition of a graph.
struct Repetition {
  std::list<Stream> streams;
  std::map<const Stream *, std::deque<size_t>> numbers; ///< of the nodes left
  explicit Repetition(const Capture &capture) {
    std::map<Point *, std::shared_ptr<bool>> reached;
    auto flag = [&](const std::shared_ptr<Point> &point) {
      std::shared_ptr<bool> &entry = reached[point.get()];
      if (!entry)
        entry = std::make_shared<bool>(false);
      return entry;
    };
    for (auto branch = capture.branches.rbegin(); branch != capture.branches.rend(); ++branch) {
      Stream &stream = streams.emplace_back();
      for (const Capture::Node &node : branch->nodes) {
        if (node.reaches)
          stream.work.push_back([mine = flag(node.reaches)] { return *mine = true; });
        else if (node.awaits)
          stream.work.push_back([theirs = flag(node.awaits)] { return *theirs; });
        else
          stream.work.push_back(node.attempt);
        numbers[&stream].push_back(node.number);
      }
    }
  }
  /// Goes on as far as possible. Returns whether all is done.
  bool attempt() {
    if (runsEarly())
      while (attemptFirst()) {
      }
    else
      runAhead();
    return remaining() == 0;
  }
  void runAhead() {
    for (size_t before = 0, left = 1; before != left;) {
      before = remaining();
      for (Stream &stream : streams)
        stream.run();
      left = remaining();
    }
  }
  /// One node: of those that need not wait the first. Returns whether there was one.
  bool attemptFirst() {
    std::map<size_t, Stream *> next;
    for (Stream &stream : streams)
      if (!stream.work.empty())
        next[numbers[&stream].front()] = &stream;
    for (auto [number, stream] : next)
      if (stream->work.front()()) {
        stream->work.pop_front();
        numbers[stream].pop_front();
        return true;
      }
    return false;
  }
  size_t remaining() const {
    size_t sum = 0;
    for (const Stream &stream : streams)
      sum += stream.work.size();
    return sum;
  }
};

} // namespace tessera::rt::cuda::check

using namespace tessera::rt::cuda;
using namespace tessera::rt::cuda::check;

/// What handles of graphs, executable or not, point to.
using Graph = std::shared_ptr<Capture>;

extern "C" {

Status cuStreamBeginCapture_v2(Handle handle, int) {
  NEEDS_CONTEXT
  auto &stream = *static_cast<Stream *>(handle);
  if (refusedInCapture(stream, "a second recording"))
    return captureUnsupported;
  stream.capture = std::make_shared<Capture>();
  stream.capture->of(&stream);
  return success;
}

Status cuStreamEndCapture(Handle handle, Handle *graph) {
  NEEDS_CONTEXT
  auto &stream = *static_cast<Stream *>(handle);
  std::shared_ptr<Capture> capture = stream.capture;
  *graph = nullptr;
  if (!capture || capture->branches.front().stream != &stream)
    return fail(invalidValue, "the end of a recording that was not begun in this stream");
  Status status = capture->broken ? captureUnsupported : success;
  for (Capture::Branch &branch : capture->branches) {
    branch.stream->capture = nullptr;
    if (branch.stream != &stream && capture->branches.front().after[branch.stream] < branch.nodes.size())
      status = fail(captureUnjoined, "a stream's work is recorded in a graph that does not wait for its end");
  }
  if (status == success)
    *graph = new Graph(capture);
  return status;
}

Status cuGraphInstantiateWithFlags(Handle *executable, Handle graph, unsigned long long) {
  *executable = new Graph(*static_cast<Graph *>(graph));
  return success;
}
Status cuGraphLaunch(Handle executable, Handle stream) {
  NEEDS_CONTEXT
  Graph graph = *static_cast<Graph *>(executable);
  give(*static_cast<Stream *>(stream), [graph, repetition = std::shared_ptr<Repetition>()]() mutable {
    if (!repetition)
      repetition = std::make_shared<Repetition>(*graph);
    return repetition->attempt();
  });
  return success;
}
Status cuGraphDestroy(Handle graph) {
  delete static_cast<Graph *>(graph);
  return success;
}
Status cuGraphExecDestroy(Handle executable) { return cuGraphDestroy(executable); }
}
