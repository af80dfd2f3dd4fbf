// See transport.h.
#include "runtime/comm/transport.h"

namespace tessera::rt {

Sent &Transport::counter(std::string_view axes, std::string_view kind) {
  auto byAxes = counters.find(axes);
  if (byAxes == counters.end())
    byAxes = counters.emplace(std::string(axes), SentCounters::mapped_type()).first;
  auto byKind = byAxes->second.find(kind);
  if (byKind == byAxes->second.end())
    byKind = byAxes->second.emplace(std::string(kind), Sent()).first;
  return byKind->second;
}

Transport::Request Transport::send(int to, const void *data, int64_t bytes, Tag tag) {
  if (tag != Control) {
    if (current) {
      current->bytes += bytes;
    } else {
      Sent &stray = counter("", "send");
      ++stray.count;
      stray.bytes += bytes;
    }
  }
  return postSend(to, data, bytes, tag);
}

Transport::Request Transport::receive(int from, void *data, int64_t bytes, Tag tag) {
  return postReceive(from, data, bytes, tag);
}

void Transport::beginCollective(std::string_view axes, std::string_view kind) {
  current = &counter(axes, kind);
  ++current->count;
}

void Transport::count(std::string_view axes, std::string_view kind, int64_t bytes) {
  Sent &entry = counter(axes, kind);
  ++entry.count;
  entry.bytes += bytes;
}

void Transport::resetSent() {
  counters.clear();
  current = nullptr;
}

} // namespace tessera::rt
