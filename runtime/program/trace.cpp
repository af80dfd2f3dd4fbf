// See trace.h. The format: "Trace Event Format", complete (X) and metadata (M) events.
#include "runtime/program/trace.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace tessera::rt {

double traceSeconds(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

static const std::string send = "send";
static constexpr std::array<const char *, 8> streams = {"compute",
                                                        "communication",
                                                        "input",
                                                        "copied to the device",
                                                        "copied to the host",
                                                        "read from NVMe",
                                                        "written to NVMe",
                                                        "updated on the host"};

const char *TraceRecorder::nameOf(Stream stream) { return streams[size_t(stream)]; }

void TraceRecorder::add(const Event &event) {
  if (events.size() < maxEvents)
    events.push_back(event);
  else
    ++dropped;
}

void TraceRecorder::add(const std::string &name, const std::string &kind, Stream stream, double begin,
                        double end) {
  std::lock_guard lock(mutex);
  add({&name, &kind, int(stream), begin, end});
}

void TraceRecorder::addMessage(int peer, const std::string &axes, double begin, double end) {
  std::lock_guard lock(mutex);
  double &until = sentUntil[peer];
  add({&send, &axes, int(streams.size()) + peer, std::max(begin, until), end});
  until = end;
}

std::string TraceRecorder::json(double origin) const {
  using Json = nlohmann::json;
  std::string text;
  auto append = [&](const Json &event) {
    text += (text.empty() ? "" : ",\n") + event.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  append({{"ph", "M"},
          {"name", "process_name"},
          {"pid", rank},
          {"args", {{"name", "rank " + std::to_string(rank)}, {"flops", programs}}}});
  auto appendRow = [&](int row, const std::string &name) {
    append({{"ph", "M"}, {"name", "thread_name"}, {"pid", rank}, {"tid", row}, {"args", {{"name", name}}}});
  };
  for (int stream = 0; stream < int(streams.size()); ++stream)
    if (stream < int(Stream::ToDevice) ||
        std::any_of(events.begin(), events.end(), [&](const Event &event) { return event.row == stream; }))
      appendRow(stream, streams[size_t(stream)]);
  for (const auto &[peer, until] : sentUntil)
    appendRow(int(streams.size()) + peer, "sent to rank " + std::to_string(peer));
  for (const Event &event : events)
    append({{"ph", "X"},
            {"name", event.name->empty() ? *event.kind : *event.name},
            {"cat", *event.kind},
            {"pid", rank},
            {"tid", event.row},
            {"ts", (event.begin - origin) * 1e6},
            {"dur", (event.end - event.begin) * 1e6}});
  if (dropped)
    append({{"ph", "I"},
            {"name", std::to_string(dropped) + " later events were dropped"},
            {"pid", rank},
            {"tid", 0},
            {"s", "p"},
            {"ts", (events.back().end - origin) * 1e6}});
  return text;
}

} // namespace tessera::rt
