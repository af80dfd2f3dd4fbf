// See timeline.h.
#include "runtime/simulate/timeline.h"

#include "runtime/program/trace.h"
#include "runtime/simulate/simulate.h"

namespace tessera::rt {
namespace {

using Stream = TimelineEvent::Stream;

// As many as a trace of a rank has.
constexpr size_t maxEvents = size_t(1) << 19;

TraceRecorder::Stream rowOf(const TimelineEvent &event) {
  using Row = TraceRecorder::Stream;
  static constexpr PerDirection<Row> copies = {Row::ToDevice, Row::ToHost, Row::FromNvme, Row::ToNvme};
  switch (event.stream) {
  case Stream::Copy:
    return copies[event.direction];
  case Stream::Host:
    return Row::Host;
  case Stream::Collective:
    return Row::Communication;
  case Stream::Work:
  case Stream::Wait:
  case Stream::Message:
    break;
  }
  return Row::Compute;
}

} // namespace

void RankTimeline::add(const TimelineEvent &event) {
  if (events.size() < maxEvents)
    events.push_back(event);
  else
    ++dropped;
}

std::string laneOf(const TimelineEvent &event, const Simulation &step) {
  if (event.stream == Stream::Collective)
    return "over " + step.traffic[event.traffic].axes;
  if (event.stream == Stream::Message)
    return "sent to rank " + std::to_string(event.peer);
  return TraceRecorder::nameOf(rowOf(event));
}

std::string chromeTrace(const Simulation &step) {
  std::string text;
  for (const RankTimeline &rank : step.timelines) {
    TraceRecorder recorder(int(rank.rank));
    for (size_t i = 0; i < rank.events.size(); ++i) {
      const TimelineEvent &event = rank.events[i];
      if (event.stream == Stream::Message) {
        recorder.addMessage(int(event.peer), step.traffic[event.traffic].axes, event.begin, event.end);
        continue;
      }
      double end = event.end;
      while (event.stream == Stream::Wait && i + 1 < rank.events.size() &&
             rank.events[i + 1].stream == Stream::Wait && rank.events[i + 1].op == event.op &&
             rank.events[i + 1].begin == end)
        end = rank.events[++i].end;
      recorder.add(event.op->name, event.op->profile, rowOf(event), event.begin, end);
    }
    text += (text.empty() ? "[" : ",\n") + recorder.json(0);
  }
  return text.empty() ? text : text + "]\n";
}

} // namespace tessera::rt
