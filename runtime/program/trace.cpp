// See trace.h. The format: "Trace Event Format", complete (X) and metadata (M) events.
#include "runtime/program/trace.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace tessera::rt {

double traceSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void TraceRecorder::add(const std::string &name, const std::string &kind, Stream stream, double begin,
                        double end) {
  std::lock_guard lock(mutex);
  if (events.size() >= maxEvents) {
    ++dropped;
    return;
  }
  events.push_back({&name, &kind, stream, begin, end});
}

std::string TraceRecorder::json(double origin) const {
  static const char *const streams[] = {"compute", "communication", "input"};
  using Json = nlohmann::json;
  std::string text;
  auto append = [&](const Json &event) {
    text += (text.empty() ? "" : ",\n") + event.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  append({{"ph", "M"},
          {"name", "process_name"},
          {"pid", rank},
          {"args", {{"name", "rank " + std::to_string(rank)}}}});
  for (int stream = 0; stream < 3; ++stream)
    append({{"ph", "M"},
            {"name", "thread_name"},
            {"pid", rank},
            {"tid", stream},
            {"args", {{"name", streams[stream]}}}});
  for (const Event &event : events)
    append({{"ph", "X"},
            {"name", event.name->empty() ? *event.kind : *event.name},
            {"cat", *event.kind},
            {"pid", rank},
            {"tid", int(event.stream)},
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
